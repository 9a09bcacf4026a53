"""Writes the version of strategies/settings.py as the tag of our images into files that cannot
read it.

python -m scripts.image_tags
"""

import re
from collections.abc import Iterator
from pathlib import Path

from strategies.settings import VERSION

ROOT = Path(__file__).parents[1]
_TAG = re.compile(
    r"(pulsar-rebalancer-(?:job|executor|spark)(?::|\n    newTag: )|decided by steady/fixed )"
    r"\d+\.\d+\.\d+"
)


def main() -> None:
    for file, text in files():
        file.write_text(tagged(text), "utf-8")


def files() -> Iterator[tuple[Path, str]]:
    """The files below these folders, with their texts."""
    for folder in ("deploy", "docker", "docs"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file():
                yield file, file.read_text("utf-8")


def tagged(text: str) -> str:
    """The text with the tag of this version."""
    return _TAG.sub(rf"\g<1>{VERSION}", text)


if __name__ == "__main__":
    main()
