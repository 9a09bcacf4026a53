"""The period in which the token is valid: a JWT states it, an opaque token does not."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from pulsar_rebalancer.cli.finding import Finding, Rule, evaluate, ok
from sinks.pulsar_api.access import PulsarSettings
from sinks.secret_file import read_secret
from strategies.errors import SettingsError
from strategies.figures.describe import age

_CHECK = "token expiry"
_WEEK_S, _FOREVER_S = 7 * 86_400, 1e15
_RENEW = (
    "write a new token into the file pulsar.token_file; the file is read again for every "
    "call, so no restart is needed"
)


def check_expiry(settings: PulsarSettings, now_s: float) -> list[Finding]:
    """Warns a week before expiry, or at the last fifth of a shorter validity. `now_s`: since the
    epoch. Empty if no token is set.

    Reads the claims `exp`, `nbf` and `iat` of RFC 7519 and does not check the signature.
    """
    if not settings.token_file:
        return []
    try:
        claims = _claims(read_secret(settings.token_file, "pulsar.token_file").reveal())
    except SettingsError as error:
        return [
            Finding(
                _CHECK,
                "fail",
                error.complaints[0],
                "set pulsar.token_file to the file with the token",
            )
        ]
    return [ok(_CHECK, "the token states no expiry") if claims is None else _of(claims, now_s)]


def _of(claims: Mapping[str, Any], now_s: float) -> Finding:
    end, begin, made = (_number(claims.get(name)) for name in ("exp", "nbf", "iat"))
    text, left_s, early_s = "the token never expires", _FOREVER_S, float(_WEEK_S)
    if end is not None:
        left_s = end - now_s
        text = f"the token expires in {_span(left_s)}"
        if made is not None:
            early_s = min(_WEEK_S, (end - made) / 5)
    waits_s = (begin or now_s) - now_s
    return evaluate(
        _CHECK,
        text,
        Rule(left_s <= 0, "fail", f"the token expired {_span(-left_s)} ago", _RENEW),
        Rule(
            waits_s > 0,
            "fail",
            f"the token is not valid before {_span(waits_s)} from now",
            "wait, or check the clocks",
        ),
        Rule(end is None and "exp" in claims, "warn", "the token's exp is not a number", _RENEW),
        Rule(left_s < early_s, "warn", text, _RENEW),
    )


def _claims(token: bytes) -> Mapping[str, Any] | None:
    """The claims of a JWT; None for any other text."""
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float | None:
    """A NumericDate as float, clipped, because an integer may exceed the largest float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return float(min(max(value, -1e15), 1e15))


def _span(seconds: float) -> str:
    return age(int(seconds * 1000))
