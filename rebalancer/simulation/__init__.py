"""A deterministic model of a Pulsar cluster in virtual time: what its brokers would report, and what a move does to them."""
