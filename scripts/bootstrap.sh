#!/usr/bin/env bash
# Creates or updates the virtual environment: checks Python and Java, installs the locked dependencies with digests, then this project.
# Usage: scripts/bootstrap.sh VENV    PYTHON=… chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${1:?usage: scripts/bootstrap.sh VENV}"

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

echo "Installing the locked dependencies into $venv (Spark is large: the first time takes a few minutes)" >&2
pip=("$venv/bin/python" -m pip --disable-pip-version-check)
"${pip[@]}" install --quiet --require-hashes -r requirements/dev.lock
"${pip[@]}" install --quiet --no-deps --no-build-isolation --editable .
touch "$venv/.stamp"
echo "Ready: source $venv/bin/activate, then for example: rebalancer watch --demo" >&2
