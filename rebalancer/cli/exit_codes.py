"""Exit codes of `rebalancer`; scripts may rely on them."""

from __future__ import annotations

from typing import Final

OK: Final = 0
ERROR: Final = 1
SETTINGS: Final = 2
IMBALANCED: Final = 3
DIFFERENT: Final = 5
INTERRUPTED: Final = 130
