"""The connection through which a task asks Spark's Java process for its state.

Java leaves its end open when Python ends the connection, or says that it has finished: one open
file for every task (SPARK-58932; Spark 4.2.0). It closes its end only if the task ends first.
"""

from __future__ import annotations

from typing import Any

#: The connection of this process's last task. The next task drops it; Java has closed its end then.
_LAST: list[Any] = []


def leave_open(handle: Any) -> None:
    """Keeps the connection of a task that has finished, and sends Java no word of it. `handle`: of
    the stateful processor.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    if client is not None:
        client.set_handle_state = lambda state: None
        _LAST[:] = [client]
