"""Settings that would have kept a recorded cluster more even, or moved less for it."""
