#!/usr/bin/env bash
# Creates or updates the virtual environment: checks Python and Java, installs locked packages with digests, and this project.
# Usage: scripts/bootstrap.sh VENV [empty|product|dev]    PYTHON=… chooses the interpreter.
#   empty: the environment without packages; product (default): what a user needs; dev: the tools of developers on top.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${1:?usage: scripts/bootstrap.sh VENV [empty|product|dev]}"
content="${2:-product}"

python_is_usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1
}

python_advice() {
    echo "Python 3.11 to 3.14 with its venv module is needed and none was found (tried: $*)." >&2
    case "$(uname -s)" in
        Darwin) echo "Get it with:  brew install python@3.12" >&2 ;;
        *) if command -v apt-get >/dev/null; then echo "Get it with:  sudo apt-get install python3 python3-venv" >&2
           else echo "Get it with your system's package manager." >&2; fi ;;
    esac
    echo "or name one:  make PYTHON=/path/to/python3.12 setup" >&2
}

find_python() {
    local candidates=(python3 python3.12 python3.13 python3.11 python3.14 python) candidate
    [ -n "${PYTHON:-}" ] && candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if python_is_usable "$candidate"; then echo "$candidate"; return 0; fi
    done
    python_advice "${candidates[@]}"
    return 1
}

# Both checks run before the first download, which takes minutes.
source scripts/java.sh
if ! { [ -x "$venv/bin/python" ] && python_is_usable "$venv/bin/python"; }; then
    python="$(find_python)"
    echo "Creating $venv with $("$python" --version)" >&2
    "$python" -m venv --clear "$venv"
fi

case "$content" in
    product)
        "$venv/bin/python" -m scripts.packages install product.lock "the product"
        # pip and setuptools rather than a .pth file by hand: they also make the command and the metadata that it reads.
        "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-compile --no-build-isolation --editable .
        # Only what is used: to compile all packages takes longer than to install them.
        PYTHONDONTWRITEBYTECODE= "$venv/bin/python" -m compileall -q pulsar_rebalancer sinks strategies streaming
        PYTHONDONTWRITEBYTECODE= "$venv/bin/python" -c "import pyspark.worker, streaming.job, streaming.processor"
        touch "$venv/.product"
        echo "Ready: source $venv/bin/activate, then for example: rebalancer watch --demo" >&2 ;;
    dev)
        "$venv/bin/python" -m scripts.packages install dev.lock "developers, beside the product"
        touch "$venv/.stamp" ;;
esac
