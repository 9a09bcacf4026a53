"""Compares our decisions with those of Pulsar's own shedder, on the same cluster at the same
time.
"""
