"""Shows a converted broker.conf as a settings file with the origin of each line, or as one JSON
document.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from pulsar_rebalancer.settings.broker_conf.convert import Conversion, KeyOutcome
from pulsar_rebalancer.settings.broker_conf.keys import class_name
from pulsar_rebalancer.settings.broker_conf.upgrade import OmittedKey, Upgrade, as_written
from pulsar_rebalancer.settings.settings_file_text import toml


def as_toml(file: Path, conversion: Conversion, upgrade: Upgrade | None = None) -> str:
    """Settings by table, each with its key in broker.conf; all other known keys follow as
    comments, and what an upgrade changes.
    """
    lines = [
        f"# Settings from {_one_line(file)}. Settings without a key keep our default; "
        "`rebalancer config show` lists everything.",
        '# [shedding] mode = "parity" decides exactly as Pulsar does; the default "fixed" '
        "repairs the known defects of its rules.",
    ]
    paths = sorted(conversion.settings, key=lambda path: path.rpartition(".")[0])
    for section, group in groupby(paths, key=lambda path: path.rpartition(".")[0]):
        lines += ["", f"[{section}]"]
        lines += [
            f"{path.rpartition('.')[2]} = {toml(conversion.settings[path])}  # "
            f"{_origin(file, conversion, path)}"
            for path in group
        ]
    lines += ["", "# Set in the file, without effect:", *_comments(conversion, "no effect")]
    lines += [
        "",
        "# Known, but not set in the file (with Pulsar's default):",
        *_comments(conversion, "not set"),
    ]
    if upgrade is not None:
        lines += ["", *_upgrade_comments(upgrade)]
    return "\n".join(lines) + "\n"


def as_json(file: Path, conversion: Conversion, upgrade: Upgrade | None = None) -> dict[str, Any]:
    """The conversion as data for JSON, with what an upgrade changes."""
    return {
        "file": str(file),
        "settings": dict(conversion.settings),
        "keys": [_key(outcome) for outcome in conversion.keys],
        "warnings": list(conversion.warnings),
        **({} if upgrade is None else {"upgrade": upgrade_as_json(upgrade)}),
    }


def upgrade_as_json(upgrade: Upgrade) -> dict[str, Any]:
    """The changes of an upgrade as data for JSON."""
    releases = upgrade.before, upgrade.after
    return {
        "from": upgrade.before,
        "to": upgrade.after,
        "omitted": [_omitted(one) for one in upgrade.omitted],
        "strategies": {
            release: {
                "shedding": pair.shedding,
                "placement": pair.placement,
                "starts": pair.starts,
            }
            for release, pair in zip(releases, upgrade.pairs, strict=True)
        },
        "remarks": list(upgrade.remarks),
        "lines": list(upgrade.lines),
        "other_lines": list(upgrade.other_lines),
    }


def short_value(value: Any) -> str:
    """A value for display: classes without their package."""
    text = as_written(value)
    return class_name(text) if text.startswith("org.") else text


def _upgrade_comments(upgrade: Upgrade) -> Iterator[str]:
    after = upgrade.after
    if not upgrade.omitted:
        yield f"# An upgrade to Pulsar {after} changes no key that the file leaves out."
        return
    yield (
        f"# Not set in the file, and another default in Pulsar {after} "
        f"(value in {upgrade.before} -> value in {after}):"
    )
    for one in upgrade.omitted:
        change = f"{short_value(one.before)} -> {short_value(one.after)}"
        yield f"#   {one.key}: {change}  ({one.effect})"
    yield from _pair_comments(upgrade)
    if upgrade.lines:
        yield ""
        yield "# These lines in broker.conf keep today's load balancing after the upgrade:"
        yield from (f"#   {line}" for line in upgrade.lines)


def _pair_comments(upgrade: Upgrade) -> Iterator[str]:
    yield ""
    yield "# Strategies:"
    for release, pair in zip((upgrade.before, upgrade.after), upgrade.pairs, strict=True):
        names = f"{class_name(pair.shedding)} sheds, {class_name(pair.placement)} places"
        yield f"#   Pulsar {release}: {_one_line(names if pair.starts else 'none, no start')}"
    yield from (f"#   {_one_line(remark)}" for remark in upgrade.remarks)


def _omitted(one: OmittedKey) -> dict[str, Any]:
    return {
        "key": one.key,
        "before": one.before,
        "after": one.after,
        "effect": one.effect,
        "changes": one.changes,
        "balancing": one.balancing,
        "keep": one.line,
    }


def _origin(file: Path, conversion: Conversion, path: str) -> str:
    origin = conversion.origins[path]
    return _one_line(
        origin.replace(f"{file}:", "line ", 1) if origin.startswith(f"{file}:") else origin
    )


def _comments(conversion: Conversion, result: str) -> Iterator[str]:
    for outcome in conversion.keys:
        if outcome.result == result:
            value = outcome.key.default if outcome.value is None else outcome.value
            why = f"  ({outcome.why})" if outcome.why else ""
            yield f"#   {outcome.key.name} = {_one_line(toml(value))}{_one_line(why)}"


def _key(outcome: KeyOutcome) -> dict[str, Any]:
    return {
        "key": outcome.key.name,
        "line": outcome.line,
        "value": outcome.value,
        "default": outcome.key.default,
        "result": outcome.result,
        "settings": list(outcome.settings),
        "why": outcome.why or None,
    }


def _one_line(text: object) -> str:
    """Text without line breaks, which would end a comment."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text)
    )
