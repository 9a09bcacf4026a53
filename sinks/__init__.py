"""Input and output: topics, wire format, recordings, Pulsar's admin API, collector and executor.
Never imports Spark.
"""
