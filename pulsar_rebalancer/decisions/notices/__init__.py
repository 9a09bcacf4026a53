"""Decides which changes of a cluster are worth a notice."""
