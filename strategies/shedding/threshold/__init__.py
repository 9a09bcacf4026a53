"""ThresholdShedder: brokers whose usage is too far above the cluster's mean."""
