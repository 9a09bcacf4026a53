"""Contracts of the six topics: the one source of decoders, encoders and JSON Schemas."""
