"""AvgShedder: pairs of the fullest and the emptiest brokers."""
