"""Which brokers may take a bundle, and why the others may not."""
