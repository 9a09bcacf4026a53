"""The state of a cluster in Spark: rows, store, and reading it from a checkpoint."""
