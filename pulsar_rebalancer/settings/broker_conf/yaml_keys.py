"""Finds keys and values in YAML, of which JSON is a part: ConfigMaps with or without a whole
broker.conf in them, values of Helm, variables of containers, and what Pulsar's admin API prints.

Tables are searched at any depth, because every chart has its own. Values are texts as they are
written: `85.0` and `yes` stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import yaml

from pulsar_rebalancer.settings.broker_conf.keys import KEYS, PREFIX
from pulsar_rebalancer.settings.broker_conf.properties import Property, properties_in
from strategies.errors import SettingsError

_NULL = "tag:yaml.org,2002:null"
_ELSEWHERE = "has no value in this file: name a file that contains it"
_PRINT_IT = "print it first, for example with `helm template` or `kubectl get configmap -o yaml`"


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
            remark = _ELSEWHERE if value.tag == _NULL else ""
            yield Property(key.value, "" if remark else value.value, line, remark)
    elif isinstance(value, yaml.SequenceNode) and key.value.removeprefix(PREFIX) in KEYS:
        names = (item.value for item in value.value if _is_text(item))
        yield Property(key.value, ",".join(names), line)
    else:
        yield from _keys(file, value, seen)


def _is_text(node: yaml.Node | None) -> TypeGuard[yaml.ScalarNode]:
    return isinstance(node, yaml.ScalarNode)
