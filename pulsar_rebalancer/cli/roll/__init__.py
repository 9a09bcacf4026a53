"""The process of `rebalancer roll`: what it sees of the cluster, and what it does."""
