"""Dispatch throttling: how many messages and bytes a dispatcher may read, as arithmetic without clock or timer."""
