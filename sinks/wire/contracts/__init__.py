"""What travels on the five topics: the one description from which decoders, encoders and JSON Schemas are made."""
