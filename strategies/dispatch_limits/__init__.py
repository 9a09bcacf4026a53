"""Dispatch limits that a round advises for hot bundles that can neither be moved nor split."""
