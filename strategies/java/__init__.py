"""What exists only to equal Java: hash order, regular expressions, and the versions of Pulsar that differ."""
