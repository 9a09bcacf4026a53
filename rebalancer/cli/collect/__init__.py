"""What `rebalancer collect` prints: a cluster as a table, a pass as a line."""
