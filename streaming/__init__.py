"""The decisions on Spark Structured Streaming; the only package that imports pyspark."""
