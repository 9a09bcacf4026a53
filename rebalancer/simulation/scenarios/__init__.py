"""Scenarios as text files: what may stand in one (`form`), and where they are found (`shelf`)."""
