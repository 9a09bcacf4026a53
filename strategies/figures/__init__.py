"""Usage of brokers: as reports show it, as commanded moves change it."""
