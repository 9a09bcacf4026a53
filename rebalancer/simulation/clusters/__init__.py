"""Clusters as they are at first: those of scenario files, and the skewed one of the demo."""
