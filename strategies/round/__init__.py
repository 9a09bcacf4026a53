"""One round, from the state of a cluster to commands, step by step."""
