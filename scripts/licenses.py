"""Lists the licences of what the two images contain, by the metadata of the packages in this
environment, which has the versions of the locks.

python -m scripts.licenses > docker/LICENSES.md
"""

import json
import re
from importlib import metadata
from pathlib import Path

from scripts.packages import REQUIREMENTS

ROOT = Path(__file__).parents[1]
IMAGES = ("job", "executor")
_PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+?)(?: ;.*)? \\$", re.MULTILINE)
#: Not on Linux, so in no image.
_ELSEWHERE = frozenset({"colorama"})
#: Licence of a jar by the beginning of its coordinates.
_JARS = {"org.apache.": "Apache-2.0"}
_HEAD = """# Licences of the images

Made by `python -m scripts.licenses > docker/LICENSES.md`; do not edit. The images also contain
CPython (PSF-2.0) and packages of Debian 12 (`/usr/share/doc/*/copyright` in the image), of these
the job's image OpenJDK 17 (GPL-2.0 with Classpath exception) and procps. PySpark contains jars,
whose licences are in its folder `licenses`. Texts of the packages' licences are in their
`.dist-info` folders below `/opt/rebalancer/lib`.

| package | version | licence | images |
| --- | --- | --- | --- |
"""


def main() -> None:
    print(_HEAD + "\n".join(f"| {' | '.join(row)} |" for row in [*packages(), *jars()]))


def packages() -> list[tuple[str, str, str, str]]:
    """Name, version, licence and images of each Python package."""
    locks = {image: pinned(image) for image in IMAGES}
    names = sorted({name for lock in locks.values() for name in lock} - _ELSEWHERE)
    return [
        (
            name,
            next(lock[name] for lock in locks.values() if name in lock),
            license_of(name),
            ", ".join(image for image in IMAGES if name in locks[image]),
        )
        for name in names
    ]


def pinned(image: str) -> dict[str, str]:
    """Versions of the packages in the lock of an image."""
    return dict(_PINNED.findall((REQUIREMENTS / f"{image}.lock").read_text("utf-8")))


def license_of(name: str) -> str:
    """What the metadata of an installed package says: its expression, else its text or its
    classifiers.
    """
    about = metadata.metadata(name)
    expression, text = (
        (about.get_all(key) or [""])[0] for key in ("License-Expression", "License")
    )
    classified = ", ".join(
        one.rpartition(" :: ")[2]
        for one in about.get_all("Classifier") or []
        if one.startswith("License :: OSI Approved :: ")
    )
    found = expression or text.partition("\n")[0] or classified
    if not found:
        raise ValueError(f"{name} names no licence: add what its own files say")
    return found


def jars() -> list[tuple[str, str, str, str]]:
    """Name, version, licence and image of each jar of Spark's Kafka connector."""
    lock = json.loads((ROOT / "streaming/jars/kafka_jars.json").read_text("utf-8"))
    found = re.findall(r'"jar": "([^:"]+:[^:"]+):([^"]+)"', json.dumps(lock))
    return [
        (name, version, next(_JARS[start] for start in _JARS if name.startswith(start)), "job")
        for name, version in sorted(found)
    ]


if __name__ == "__main__":
    main()
