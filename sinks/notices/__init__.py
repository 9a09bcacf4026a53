"""Notices: messages to a webhook about lasting changes of a cluster, signed and repeated."""
