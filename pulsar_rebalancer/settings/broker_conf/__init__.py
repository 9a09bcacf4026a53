"""Reading a broker.conf of Pulsar: its syntax, its load-balancing keys, and their equivalents in
our settings.
"""
