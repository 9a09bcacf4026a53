"""Replays of a recording with the plain loop, Spark or a pipe, and the output of their
decisions.
"""
