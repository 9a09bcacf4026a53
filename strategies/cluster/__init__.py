"""The memory of a cluster: records, state, and the values that floors above share."""
