"""The typed tree of all settings: sources of values, checks, and what each package gets of them."""
