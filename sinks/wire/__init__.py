"""The wire format of the five topics: contracts, decoding, encoding, signatures and limits."""
