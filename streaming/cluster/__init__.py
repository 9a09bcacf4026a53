"""Spark's workers on other machines: packages, code, and the check that they have everything."""
