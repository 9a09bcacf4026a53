"""Pulsar's dispatch limiters, for scenarios and conformance; the live round only advises limits."""
