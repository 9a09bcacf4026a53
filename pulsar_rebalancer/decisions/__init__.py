"""Readers of what was decided: they return data and print nothing."""
