"""Topics on Pulsar, through its binary protocol."""
