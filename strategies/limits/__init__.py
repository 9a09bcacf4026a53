"""Lists and times that an operator sets: patterns of namespaces and brokers, windows."""
