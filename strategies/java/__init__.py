"""Equivalents of Java behaviour: hash order, regular expressions, the modes that keep or repair it,
and the Pulsar versions whose rules differ.
"""
