"""Runs as one HTML file that needs nothing else: what happened, whether it was good, what to do next, and the pictures."""
