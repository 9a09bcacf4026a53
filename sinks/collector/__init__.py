"""The collector: load reports and policies of a cluster, published to the telemetry topic."""
