"""TransferShedder of the extensible load manager: transfers and swaps between the two ends of the
cluster.
"""
