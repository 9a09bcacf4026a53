"""The present state and the recent past of each cluster, kept up to date from the topics."""
