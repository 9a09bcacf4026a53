"""Output of `rebalancer collect`: a cluster as a table, a pass as a line."""
