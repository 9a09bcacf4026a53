"""Extracts load over time from a recording, for scenarios."""
