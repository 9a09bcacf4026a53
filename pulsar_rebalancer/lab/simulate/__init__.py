"""Simulation runs: which ones are requested, and how they run in parallel."""
