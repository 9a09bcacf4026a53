#!/usr/bin/env bash
# Prints the path of a browser for the tests of the HTML report. Only tests need it.
# Usage: scripts/browser.sh find|install [VENV]    `install` installs one if there is none; exit 1 with advice if that fails.
#
# Search order: $REBALANCER_BROWSER, Chromium or Chrome on the PATH or in the default folder of macOS, one that Playwright installed.
# Installation: apt-get (as root), otherwise Playwright's own Chromium in the user's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
mode="${1:?usage: scripts/browser.sh find|install [VENV]}"
venv="${2:-.venv}"

say() { echo "browser: $*" >&2; }

works() { [ -n "${1:-}" ] && [ -x "$1" ] && "$1" --headless --no-sandbox --version >/dev/null 2>&1; }

installed() {
  local name path
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    path=$(command -v "$name" || true)
    if works "$path"; then echo "$path"; return 0; fi
  done
  for path in "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium" \
    "${HOME:-}"/.cache/ms-playwright/chromium*-*/chrome-linux*/{chrome,headless_shell} \
    "${HOME:-}"/.cache/ms-playwright/chromium*-*/chrome-headless-shell-linux*/chrome-headless-shell \
    "${HOME:-}"/Library/Caches/ms-playwright/chromium-*/chrome-mac*/*.app/Contents/MacOS/*; do
    if works "$path"; then echo "$path"; return 0; fi
  done
  return 1
}

if [ -n "${REBALANCER_BROWSER:-}" ]; then
  works "$REBALANCER_BROWSER" || { say "REBALANCER_BROWSER=$REBALANCER_BROWSER does not start; name a Chromium or Chrome, or unset it"; exit 1; }
  echo "$REBALANCER_BROWSER"
  exit 0
fi
if installed; then exit 0; fi

if [ "$mode" = install ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "none found; installing Chromium with apt-get"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >&2 || true
  if installed; then exit 0; fi
fi
if [ "$mode" = install ] && [ -x "$venv/bin/playwright" ]; then
  say "none found; installing Playwright's Chromium for this user"
  "$venv/bin/playwright" install chromium >&2 || true
  if installed; then exit 0; fi
fi
say "there is no Chromium or Chrome$([ "$mode" = find ] || echo ", and none could be installed"); the report's tests need one:" \
  "apt-get install chromium, dnf install chromium, brew install --cask chromium, or REBALANCER_BROWSER=/path/to/chrome"
exit 1
