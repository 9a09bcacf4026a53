"""Load over time, read out of a recording, for scenarios."""
