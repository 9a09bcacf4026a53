"""Which bundles should leave which broker: one folder per strategy, found through `registry`."""
