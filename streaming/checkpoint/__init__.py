"""The checkpoint folder: who may use it, and which settings may change under it."""
