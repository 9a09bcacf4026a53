#!/usr/bin/env bash
# Prints the folder with Debian's `prometheus` and `promtool`. Only tests need them.
# Usage: scripts/prometheus.sh find|install [VENV]    `install` fetches them if there are none; exit 1 with advice if that fails.
#
# Search order: the PATH, then VENV/prometheus. The package is downloaded and unpacked there, not installed: an installed one would
# start a server on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
mode="${1:?usage: scripts/prometheus.sh find|install [VENV]}"
venv="$(cd "${2:-.venv}" 2>/dev/null && pwd || true)"

say() { echo "prometheus: $*" >&2; }

works() { [ -x "$1/prometheus" ] && [ -x "$1/promtool" ] && "$1/promtool" --version >/dev/null 2>&1; }

installed() {
  local place
  for place in "$(dirname "$(command -v promtool || echo /none/promtool)")" "$venv/prometheus/usr/bin"; do
    if works "$place"; then echo "$place"; return 0; fi
  done
  return 1
}

fetch() {
  local folder="$venv/prometheus"
  mkdir -p "$folder"
  if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
  (cd "$folder" && apt-get download -qq prometheus && dpkg-deb --extract prometheus_*.deb . && rm -f prometheus_*.deb)
}

if installed; then exit 0; fi
if [ "$mode" = install ] && [ -n "$venv" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
  say "none found; fetching Debian's package"
  fetch >&2 || true
  if installed; then exit 0; fi
fi
say "prometheus and promtool are not on the PATH$([ "$mode" = find ] || echo ", and could not be fetched"); Debian, Ubuntu: apt-get install prometheus"
exit 1
