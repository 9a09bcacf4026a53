"""The fold: what a cluster's state is after one more telemetry record."""
