"""The edges: topics, wire format, recordings, Pulsar's admin API, collector and executor; never Spark."""
