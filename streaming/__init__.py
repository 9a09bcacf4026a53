"""The streaming job on Spark Structured Streaming; the only package that imports pyspark."""
