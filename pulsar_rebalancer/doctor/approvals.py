"""Checks of plans that people approve: the key, its file mode, and the time that people have."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_rebalancer.cli.finding import Finding, ok
from pulsar_rebalancer.doctor.key_files import and_previous, open_to_others
from sinks.executor.settings import ExecutorSettings, check_approval
from sinks.wire.signing import SigningSettings, approvals_key
from strategies.errors import SettingsError
from strategies.figures.describe import age
from strategies.settings import RoundSettings

_CHECK = "approvals"
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
    path, previous = signing.approvals_key_file, signing.previous_approvals_key_file
    if found := open_to_others((path, previous)):
        file, mode = found
        yield Finding(
            _CHECK,
            "warn",
            f"{file}: mode {mode:04o} lets others read or change the key, so they can approve",
            f"chmod 600 {file}",
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
        more = and_previous(previous, "signing.previous_approvals_key_file")
        yield ok(_CHECK, f"{waits}; {path} is usable{more}")
