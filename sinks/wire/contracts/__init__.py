"""Contracts of the five topics: the one source of decoders, encoders and JSON Schemas."""
