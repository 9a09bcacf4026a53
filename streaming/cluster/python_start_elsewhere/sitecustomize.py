"""Python imports this module when it starts, because PYTHONPATH names its folder."""

from streaming.cluster.early_connection import connect_early

connect_early()
