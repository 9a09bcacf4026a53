"""Writes the py-files zip for spark-submit: the given packages; equal sources give equal bytes."""

from __future__ import annotations

import sys
from pathlib import Path

from streaming.cluster.shipping import write_zip


def main() -> None:
    target, *packages = sys.argv[1:]
    write_zip(Path(target), Path(), packages)
    print(target)


if __name__ == "__main__":
    main()
