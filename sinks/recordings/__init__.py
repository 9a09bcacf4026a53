"""Recordings of telemetry: JSON Lines and Parquet, and how a topic becomes one."""
