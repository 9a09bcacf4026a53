"""Moves of bundles that are not the rebalancer's: how the fold recognises them, and when rounds
yield to whatever makes them.
"""
