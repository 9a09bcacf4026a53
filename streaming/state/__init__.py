"""The state of a cluster in Spark: rows and store."""
