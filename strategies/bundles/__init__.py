"""What is known of bundles: load tables, summaries, hash ranges, and which bundles belong to Pulsar
itself.
"""
