"""Runs the commands of the laboratory, and prints their results as tables and as JSON."""
