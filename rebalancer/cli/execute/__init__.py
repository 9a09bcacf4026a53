"""What `rebalancer execute` is made of: the executor put together from settings."""
