"""Equivalents of Java behaviour: hash order, regular expressions, and the Pulsar versions whose
rules differ.
"""
