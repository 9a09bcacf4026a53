"""Writes a lock of jars (coordinates, size, SHA-256) from a pom, with Maven: python
scripts/lock_jars.py POM LOCK.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

COPY = ("dependency:copy-dependencies", "-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true")


def main() -> None:
    pom, lock = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom.absolute()), *COPY, f"-DoutputDirectory={folder}"],
            check=True,
        )
        lines = [
            json.dumps(entry(Path(folder), jar)) for jar in sorted(Path(folder).rglob("*.jar"))
        ]
    lock.write_text('{"v": 1, "jars": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")
    print(f"{lock}: {len(lines)} jars")


def entry(root: Path, jar: Path) -> dict[str, object]:
    """The line of a jar: group:artifact:version, with a fourth part if it has a classifier."""
    *group, artifact, version, name = jar.relative_to(root).parts
    classifier = name.removeprefix(f"{artifact}-{version}").removesuffix(".jar").removeprefix("-")
    parts = [".".join(group), artifact, version, *([classifier] if classifier else [])]
    data = jar.read_bytes()
    return {"jar": ":".join(parts), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


if __name__ == "__main__":
    main()
