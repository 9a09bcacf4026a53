"""The wire format of the six topics: contracts, decoding, encoding, signatures and limits."""
