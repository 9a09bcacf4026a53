"""Topics on Kafka."""
