"""Analyses of recordings and topics, which return data and print nothing."""
