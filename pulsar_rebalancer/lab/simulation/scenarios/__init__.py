"""Scenarios as TOML files: their format (`schema`) and the reading of them (`read_scenarios`)."""
