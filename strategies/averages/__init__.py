"""Averages, sums, maxima and orders that Pulsar computes from load reports."""
