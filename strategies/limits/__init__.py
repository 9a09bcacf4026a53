"""Limits that an operator sets for a round: excluded namespaces and brokers, maintenance windows,
and budgets for moves.
"""
