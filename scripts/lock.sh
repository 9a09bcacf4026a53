#!/usr/bin/env bash
# Resolves requirements/*.lock from pyproject.toml: one version and all digests of every package, for Python 3.11 and newer on Linux and macOS.
# job.lock and executor.lock are parts of dev.lock: the images run the versions that were tested.
set -euo pipefail
cd "$(dirname "$0")/../requirements"

tools="$(mktemp -d)"
trap 'rm -rf "$tools"' EXIT
../.venv/bin/python -m venv "$tools"
"$tools/bin/pip" install --quiet uv

compile() {
    "$tools/bin/uv" pip compile ../pyproject.toml --universal --python-version 3.11 --generate-hashes --quiet \
        --no-emit-index-url --custom-compile-command "make lock" "$@"
}

compile --extra spark --extra report --extra serve --extra dev -o dev.lock "$@"
compile --extra spark --extra serve -c dev.lock -o job.lock
compile --extra serve -c dev.lock -o executor.lock

# PySpark is pinned exactly: an upgrade needs jars that are published later, or never.
case " $* " in *" --upgrade "*) cd .. && .venv/bin/python -m scripts.newest_spark || [ $? -eq 3 ] ;; esac
