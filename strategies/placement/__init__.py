"""Which broker takes a bundle: one module per rule, found through `registry`."""
