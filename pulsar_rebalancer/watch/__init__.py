"""`rebalancer watch`: collector, streaming job and live page of a cluster in one folder."""
