"""Initial clusters: those of scenario files, and the skewed cluster of the demo."""
