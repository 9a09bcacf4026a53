"""A deterministic model of a Pulsar cluster in virtual time: load reports of its brokers and
effects of moves.
"""
