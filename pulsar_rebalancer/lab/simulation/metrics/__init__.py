"""Figures that measure a run, and the bounds of what any algorithm can reach."""
