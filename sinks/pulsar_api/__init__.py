"""Pulsar's admin API over HTTP: requests, answers, settings and the known brokers."""
