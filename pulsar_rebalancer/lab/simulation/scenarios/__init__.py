"""Scenarios as TOML files: their format (`schema`) and where they are read from (`catalog`)."""
