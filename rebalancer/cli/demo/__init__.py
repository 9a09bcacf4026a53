"""`rebalancer demo`: a modelled cluster, the real job, topics in a folder, and a picture of what happens."""
