"""Which bundles should leave which broker: one module per rule, found through `registry`."""
