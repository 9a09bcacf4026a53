"""UniformLoadShedder: compares the broker with the most traffic with the one with the least."""
