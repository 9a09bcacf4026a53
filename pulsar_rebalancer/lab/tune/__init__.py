"""Searches settings that balance a recorded cluster better, or with fewer moves."""
