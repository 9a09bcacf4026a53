"""Strategies that pick the bundles to move from a broker: one folder per strategy, listed in
`registry`.
"""
