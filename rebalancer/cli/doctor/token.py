"""When the token begins and ceases to hold, where it says so: a JWT does, an opaque one does not."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from rebalancer.cli.doctor.finding import Finding, ok
from rebalancer.cli.doctor.wording import age
from sinks.pulsar_api.settings import PulsarSettings
from sinks.secret_file import read_secret
from strategies.errors import SettingsError

_CHECK = "token expiry"
_WEEK_S = 7 * 86_400
_RENEW = "write a new token into the file pulsar.token_file; it is read again for every call, nothing needs a restart"


def check_expiry(settings: PulsarSettings, now_s: float) -> list[Finding]:
    """A week before the end, or at a fifth of a shorter life, is time to warn. `now_s`: since the epoch. Nothing where no token is named.

    Claims `exp`, `nbf` and `iat` of RFC 7519; nobody checks the signature here.
    """
    if not settings.token_file:
        return []
    try:
        claims = _claims(read_secret(settings.token_file, "pulsar.token_file").reveal())
    except SettingsError as error:
        return [Finding(_CHECK, "fail", error.complaints[0], "name the file with the token as pulsar.token_file")]
    return [ok(_CHECK, "the token does not say when it expires") if claims is None else _of(claims, now_s)]


def _of(claims: Mapping[str, Any], now_s: float) -> Finding:
    end, begin, made = (_number(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if end is not None and end <= now_s:
        return Finding(_CHECK, "fail", f"the token expired {_span(now_s - end)} ago", _RENEW)
    if begin is not None and begin > now_s:
        return Finding(_CHECK, "fail", f"the token is not valid before {_span(begin - now_s)} from now", "wait, or compare the clocks")
    if end is None:
        unreadable = "exp" in claims
        return Finding(_CHECK, "warn", "the token's exp is no number", _RENEW) if unreadable else ok(_CHECK, "the token never expires")
    text = f"the token expires in {_span(end - now_s)}"
    early_s = _WEEK_S if made is None else min(_WEEK_S, (end - made) / 5)
    return Finding(_CHECK, "warn", text, _RENEW) if end - now_s < early_s else ok(_CHECK, text)


def _claims(token: bytes) -> Mapping[str, Any] | None:
    """What a JWT says of itself; None for any other text."""
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float | None:
    """A NumericDate; clipped, because an integer may be larger than any float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return float(min(max(value, -1e15), 1e15))


def _span(seconds: float) -> str:
    return age(int(seconds * 1000))
