"""Checks of plans that people approve: the key, its file mode, and the time that people have."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from rebalancer.cli.doctor.finding import Finding, age, ok
from sinks.executor.settings import ExecutorSettings, check_approval
from sinks.wire.signing import SigningSettings, approvals_key
from strategies.errors import SettingsError
from strategies.settings import RoundSettings

_CHECK = "approvals"
_OTHERS = stat.S_IWGRP | stat.S_IRWXO
#: A person who has less time rarely sees a plan before it expires.
SHORT_MS = 600_000


def check_approvals(
    executor: ExecutorSettings, signing: SigningSettings, rounds: RoundSettings
) -> Iterator[Finding]:
    """The most severe finding; none if neither a key nor an approval is asked for."""
    if executor.approval == "none" and not signing.approvals_key_file:
        return
    try:
        key = approvals_key(signing)
        check_approval(executor, key)
    except SettingsError as error:
        yield Finding(_CHECK, "fail", error.complaints[0], "correct that setting")
        return
    path = Path(signing.approvals_key_file)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        yield Finding(
            _CHECK,
            "warn",
            f"{path}: mode {mode:04o} lets others read or change the key, so they can approve",
            f"chmod 600 {path}",
        )
    elif executor.approval == "required" and rounds.command_ttl_ms < SHORT_MS:
        yield Finding(
            _CHECK,
            "warn",
            f"required, and commands expire after {age(rounds.command_ttl_ms)}: people have this "
            "time to approve a plan",
            "raise round.command_ttl_ms of the job, for example to 1800000 (30 min)",
        )
    elif executor.approval == "required" and rounds.cool_down_ms <= rounds.command_ttl_ms:
        yield Finding(
            _CHECK,
            "warn",
            f"a bundle rests for {age(rounds.cool_down_ms)} from its command on, and its command "
            f"may be approved for {age(rounds.command_ttl_ms)}: it may not rest at all",
            "raise round.cool_down_ms of the job above round.command_ttl_ms",
        )
    else:
        waits = "plans wait for approval" if executor.approval == "required" else "not required"
        yield ok(_CHECK, f"{waits}; {path} is usable")
