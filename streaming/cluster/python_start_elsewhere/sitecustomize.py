"""Python imports this module when it starts, because PYTHONPATH names its folder."""

from __future__ import annotations

from streaming.cluster.early_connection import connect_early

connect_early()
