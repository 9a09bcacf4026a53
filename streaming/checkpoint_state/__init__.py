"""The state in the checkpoint of a job that does not run: reading it, and copying it into another
number of partitions.
"""
