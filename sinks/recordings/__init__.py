"""Recordings of telemetry as JSON Lines and Parquet; copies a topic into a recording."""
