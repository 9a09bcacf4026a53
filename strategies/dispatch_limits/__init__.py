"""Dispatch limits that a round advises: what would help where a bundle can be neither moved nor split."""
