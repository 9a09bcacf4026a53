"""Answers questions about the size of a recorded cluster: bundles, brokers, partitions, hours."""
