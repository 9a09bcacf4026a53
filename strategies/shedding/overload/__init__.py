"""OverloadShedder: brokers whose usage exceeds a fixed threshold."""
