"""`rebalancer demo`: runs the real job against a modelled cluster, over topics in a folder, and
draws the rounds.
"""
