#!/usr/bin/env bash
# Resolves requirements/*.lock from pyproject.toml: one version and all digests of every package, for Python 3.11 and newer on Linux and macOS.
# The others are parts of dev.lock: users and images run the versions that were tested. sizes.txt: what each package takes.
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

compile --extra spark --extra report --extra serve --extra editable --extra dev -o dev.lock "$@"
compile --extra spark --extra report --extra serve --extra editable -c dev.lock -o product.lock
compile --extra spark --extra serve -c dev.lock -o job.lock
compile --extra serve -c dev.lock -o executor.lock

locked=(--quiet --disable-pip-version-check --require-hashes --no-deps -r dev.lock)
"$tools/bin/pip" download "${locked[@]}" -d "$tools/downloaded"
"$tools/bin/pip" install "${locked[@]}" --no-compile --target "$tools/installed"
(cd .. && .venv/bin/python -m scripts.packages measure "$tools/downloaded" "$tools/installed" >"$tools/sizes")
mv "$tools/sizes" sizes.txt

# PySpark is pinned exactly: an upgrade needs jars that are published later, or never.
case " $* " in *" --upgrade "*) cd .. && .venv/bin/python -m scripts.newest_spark || [ $? -eq 3 ] ;; esac
