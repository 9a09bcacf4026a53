"""What `rebalancer simulate` does: which runs are wished for, how they are made in parallel, how they are shown."""
