"""Reading a broker.conf of Pulsar: its syntax, the load-balancing keys it may hold, and what they mean in our settings."""
