"""Reads the keys of a broker.conf from the files that people have: the broker.conf itself, the
variables of Pulsar's images (`PULSAR_PREFIX_…`) in any form, YAML of Kubernetes, Helm and Docker
Compose, and the output of `pulsar-admin brokers get-runtime-config`.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from pathlib import Path

from pulsar_rebalancer.settings.broker_conf.keys import PREFIX
from pulsar_rebalancer.settings.broker_conf.properties import Property, logical_lines, properties_in
from pulsar_rebalancer.settings.broker_conf.yaml_keys import keys_in_yaml
from strategies.errors import SettingsError

#: The first line of YAML or JSON; properties have no blank after a colon.
_STRUCTURED = re.compile(r"[{\[]|---|%YAML|-[ \t]|[\"']?[\w./-]+[\"']?[ \t]*:([ \t]|$)")
#: How Java prints sets and optional values.
_PRINTED = re.compile(r"(Optional)?\[([^\[\]]*)\]")
_ABSENT = frozenset({"null", "Optional.empty"})
_CASE = f"Pulsar's images apply variables that begin with {PREFIX}, in capitals, only"
_QUOTES = "Pulsar takes the quotation marks for a part of the value: remove them"
_BRACKETS = "Pulsar takes the brackets for a part of the names: remove them"


def read_conf(file: Path) -> list[Property]:
    """All keys in the order of the file, repeated ones included, with values as Pulsar means them.
    SettingsError names the file and invalid lines.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SettingsError(
            [f"{file}: cannot be read ({error.strerror}); name the broker.conf of a Pulsar broker"]
        ) from error
    text = _text(data, "iso-8859-1")  # as Java reads properties
    first = next((line for _, line in logical_lines(text)), "")
    if _STRUCTURED.match(first):
        # A tabulator may stand between the parts of JSON, but not of YAML.
        printed = first.startswith("{")
        text = _text(data, "utf-8")
        found = keys_in_yaml(file, text.replace("\t", " ") if printed else text)
    else:
        printed = False
        found = properties_in(file, text)
    by_shell = any(one.key.startswith(PREFIX) for one in found)
    return [_plain(_without_prefix(one), printed, by_shell) for one in found]


def _text(data: bytes, usual: str) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode(usual, "replace")


def _without_prefix(one: Property) -> Property:
    if one.key.startswith(PREFIX):
        return replace(one, key=one.key.removeprefix(PREFIX))
    return replace(one, remark=_CASE) if one.key.upper().startswith(PREFIX) else one


def _plain(one: Property, printed: bool, by_shell: bool) -> Property:
    """The property without what surrounds its value. `printed`: Java has printed the values;
    `by_shell`: something removes quotes before Pulsar reads the value.
    """
    value, remark = one.value.strip(), one.remark
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].strip()
        remark = remark or ("" if by_shell else _QUOTES)
    match = _PRINTED.fullmatch(value)
    if match is not None:
        value = match[2].strip()
        remark = remark or ("" if printed or match[1] else _BRACKETS)
    elif value in _ABSENT:
        value = ""
    return replace(one, key=one.key.strip("\"'"), value=value, remark=remark)
