"""The edges: topics, wire format, recordings, Pulsar's admin API. Never Spark."""
