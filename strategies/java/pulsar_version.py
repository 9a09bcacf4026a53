"""The Pulsar release lines that parity mode can imitate, for rules that changed between lines.

Each name means the newest patch release of its line. Source: the version notes of the classes of
Pulsar 3.0 to 4.2.
"""

from __future__ import annotations

from typing import Annotated, Literal

from strategies.settings import Setting

PulsarVersion = Literal["3.0", "3.3", "4.0", "4.1", "4.2"]

#: The type of a `pulsar_version` setting.
Imitated = Annotated[
    PulsarVersion, Setting("Pulsar release line whose rule `parity` imitates; ignored by `fixed`")
]
