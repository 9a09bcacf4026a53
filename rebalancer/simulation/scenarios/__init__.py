"""Scenarios as text files: what a file may contain (`schema`), and where files are found (`catalog`)."""
