"""Averages of bundles, and the order of bundles by their newest figures."""
