"""UniformLoadShedder: the broker with the most traffic against the one with the least."""
