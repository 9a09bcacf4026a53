"""Reads the keys of a broker.conf from the files that people have: the broker.conf itself, the
variables of Pulsar's images (`PULSAR_PREFIX_…`) in any form, YAML of Kubernetes, Helm and Docker
Compose, and the output of `pulsar-admin brokers get-runtime-config`.

Properties are read like `java.util.Properties` does, with the line number of each key: a line that
ends with an odd number of backslashes continues on the next. Lines of a shell may stand between
them, such as `export NAME=value` and `docker run -e NAME=value`. Tables of YAML are searched at any
depth, because every chart has its own, and values are texts as they are written: `85.0` and `yes`
stay what they are.
"""

import codecs
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import yaml

from pulsar_rebalancer.settings.broker_conf.keys import KEYS, PREFIX
from strategies.errors import SettingsError, raise_complaints

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SHELL = re.compile(
    r"(?:sudo|export|declare|set|env|ENV|docker|podman|kubectl|helm|--?e(?:nv)?)[ \t]"
    r"|--env=|Environment="
)
_ASSIGNED = re.compile(r"(?:--env=|Environment=)?(?:[\w-]+\.)*([A-Za-z_]\w*)=(.*)", re.DOTALL)


_ELSEWHERE = "has no value in this file: name a file that contains it"
_PRINT_IT = "print it first, for example with `helm template` or `kubectl get configmap -o yaml`"
#: The first line of YAML or JSON; properties have no blank after a colon.
_STRUCTURED = re.compile(r"[{\[]|---|%YAML|-[ \t]|[\"']?[\w./-]+[\"']?[ \t]*:([ \t]|$)")
#: How Java prints sets and optional values.
_PRINTED = re.compile(r"(Optional)?\[([^\[\]]*)\]")
_ABSENT = frozenset({"null", "Optional.empty"})


@dataclass(frozen=True, slots=True)
class Property:
    """A key with its value; `line`: its first line, counted from 1; `remark`: what a person should
    know about how it is written, or empty.
    """

    key: str
    value: str
    line: int
    remark: str = ""


def properties_in(file: Path, text: str, first: int = 1) -> list[Property]:
    """All properties in the order of the text, repeated keys included. `first`: the number of its
    first line. SettingsError names the file and invalid lines.
    """
    found, complaints = list[Property](), []
    for line, logical in logical_lines(text, first):
        try:
            found += _assigned(logical, line) if _SHELL.match(logical) else [_one(logical, line)]
        except ValueError as error:
            complaints.append(f"{file}:{line}: {error}")
    raise_complaints(complaints)
    return found


def logical_lines(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, without comments and blank lines; each with the number
    of the line where it begins.
    """
    begun, parts = 0, list[str]()
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=first):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        begun = begun if parts else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield begun, "".join(parts)
            parts = []
    if parts:
        yield begun, "".join(parts)


def _one(text: str, line: int) -> Property:
    match = _KEY.fullmatch(text)
    key, value = match.groups() if match else (text, "")
    return Property(_unescaped(key), _unescaped(value), line)


def _assigned(text: str, line: int) -> list[Property]:
    """The variables that a line of a shell sets; the shell takes the quotes."""
    try:
        words = shlex.split(re.split(r"[ \t]#", text)[0])
    except ValueError:
        raise ValueError("a quotation mark has no partner") from None
    return [
        Property(match[1], match[2].rstrip(";"), line)
        for match in map(_ASSIGNED.fullmatch, words)
        if match is not None
    ]


def _unescaped(text: str) -> str:
    return (
        _ESCAPE.sub(lambda match: _meaning(match[1]), text)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )  # two escapes may form a surrogate pair


def _meaning(escaped: str) -> str:
    if escaped == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)


def keys_in_yaml(file: Path, text: str) -> list[Property]:
    """All keys with a value, in the order of the text. SettingsError names the file and the line
    that is not YAML.
    """
    # The loader in Python: the one in C crashes on deep nesting.
    try:
        documents, seen = list(yaml.compose_all(text, yaml.SafeLoader)), set[int]()
        return [found for one in documents for found in _keys(file, one, seen)]
    except RecursionError as error:
        raise SettingsError([f"{file}:1: nested too deeply to be settings of a broker"]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise SettingsError([f"{file}:{line}: not YAML: {problem}; {_PRINT_IT}"]) from error


def _keys(file: Path, node: yaml.Node, seen: set[int]) -> Iterator[Property]:
    """The keys of a table or list and of what is inside it. `seen`: tables that were read: a name
    may stand for one any number of times.
    """
    if isinstance(node, yaml.ScalarNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _word(item) if _is_text(item) else _keys(file, item, seen)
        return
    fields = {key.value: value for key, value in node.value if _is_text(key)}
    name = fields.get("name")
    if _is_text(name) and {"value", "valueFrom"} & fields.keys():  # a variable of a container
        value = fields.get("value")
        if value is None:
            yield Property(name.value, "", name.start_mark.line + 1, _ELSEWHERE)
        else:
            yield from _entry(file, name, value, seen)
        return
    for key, value in node.value:
        yield from _entry(file, key, value, seen) if _is_text(key) else ()


def _word(item: yaml.ScalarNode) -> Iterator[Property]:
    """`NAME=value` in a list of Docker Compose."""
    name, equals, value = item.value.partition("=")
    remark = "" if equals else _ELSEWHERE
    yield Property(name.strip(), value, item.start_mark.line + 1, remark)


def _entry(
    file: Path, key: yaml.ScalarNode, value: yaml.Node, seen: set[int]
) -> Iterator[Property]:
    line = key.start_mark.line + 1
    if _is_text(value):
        if "\n" in value.value.strip():  # a file inside a ConfigMap
            yield from properties_in(file, value.value, value.start_mark.line + 2)
        else:
            remark = _ELSEWHERE if value.tag == "tag:yaml.org,2002:null" else ""
            yield Property(key.value, "" if remark else value.value, line, remark)
    elif isinstance(value, yaml.SequenceNode) and key.value.removeprefix(PREFIX) in KEYS:
        names = (item.value for item in value.value if _is_text(item))
        yield Property(key.value, ",".join(names), line)
    else:
        yield from _keys(file, value, seen)


def _is_text(node: yaml.Node | None) -> TypeGuard[yaml.ScalarNode]:
    return isinstance(node, yaml.ScalarNode)


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
    return (
        replace(
            one,
            remark=f"Pulsar's images apply variables that begin with {PREFIX}, in capitals, only",
        )
        if one.key.upper().startswith(PREFIX)
        else one
    )


def _plain(one: Property, printed: bool, by_shell: bool) -> Property:
    """The property without what surrounds its value. `printed`: Java has printed the values;
    `by_shell`: something removes quotes before Pulsar reads the value.
    """
    value, remark = one.value.strip(), one.remark
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].strip()
        remark = remark or (
            ""
            if by_shell
            else "Pulsar takes the quotation marks for a part of the value: remove them"
        )
    match = _PRINTED.fullmatch(value)
    if match is not None:
        value = match[2].strip()
        remark = remark or (
            ""
            if printed or match[1]
            else "Pulsar takes the brackets for a part of the names: remove them"
        )
    elif value in _ABSENT:
        value = ""
    return replace(one, key=one.key.strip("\"'"), value=value, remark=remark)
