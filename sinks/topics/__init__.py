"""Topics in files, on Kafka and on Pulsar: consumers, publishers, epochs and outages."""
