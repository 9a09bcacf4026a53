"""The keys of a broker.conf in the files that people have: variables of images, YAML, JSON; what
Pulsar reads otherwise than a person is told.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.broker_conf.convert import convert
from pulsar_rebalancer.settings.broker_conf.forms import read_conf
from strategies.errors import SettingsError
from tests.unit.command_line import rebalancer

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
#: What each of the files below sets.
SET = {"shedding.strategy": "avg", "shedding.avg.low_threshold": 20.0}
PROTECTED = ["public/functions", "tenant-a/ns1"]

BROKER_CONF = f"""
# of a broker
loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
loadBalancerAvgShedderLowThreshold=20  \t
loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1
"""
QUOTED = f"""
loadBalancerLoadSheddingStrategy="{IMPL}.AvgShedder"
loadBalancerAvgShedderLowThreshold='20'
loadBalancerSheddingExcludedNamespaces="public/functions,tenant-a/ns1"
"""
ENV_FILE = f"""
PULSAR_MEM="-Xms2g -Xmx2g"
PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold="20"
loadBalancerSheddingExcludedNamespaces='public/functions,tenant-a/ns1'
"""
EXPORTS = f"""
#!/bin/bash
export PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
export PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold="20"; # percent
export PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces='public/functions,tenant-a/ns1'
"""
DOCKER_RUN = f"""
docker run -d --name broker \\
  -e PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder \\
  -e "PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold=20" \\
  --env=PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces='public/functions,tenant-a/ns1' \\
  apachepulsar/pulsar:4.2.4 bin/pulsar broker
"""
OPTIONS = f"""
-e PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
-e PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold=20
-e PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1
"""
DOCKERFILE = f"""
ENV PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
ENV PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold=20
ENV PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces="public/functions,tenant-a/ns1"
"""
SYSTEMD = f"""
Environment=PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
Environment="PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold=20"
Environment=PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1
"""
HELM_UPGRADE = f"""
helm upgrade pulsar apache/pulsar \\
  --set broker.configData.PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder \\
  --set-string broker.configData.loadBalancerAvgShedderLowThreshold=20 \\
  --set "broker.configData.loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1"
"""
COMPOSE_LIST = f"""
services:
  broker:
    image: apachepulsar/pulsar:4.2.4
    environment:
      - metadataStoreUrl=zk:zookeeper:2181
      - PULSAR_PREFIX_loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
      - "PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold=20"
      - PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1
    ports: [8080, 6650]
"""
COMPOSE_MAP = f"""
x-broker: &broker
  PULSAR_PREFIX_loadBalancerLoadSheddingStrategy: {IMPL}.AvgShedder
  PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold: 20
services:
  broker-1:
    environment:
      <<: *broker
      PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces: 'public/functions,tenant-a/ns1'
  broker-2:
    environment: *broker
"""
CONTAINER = f"""
apiVersion: apps/v1
kind: StatefulSet
spec:
  template:
    spec:
      containers:
        - name: broker
          env:
            - name: PULSAR_PREFIX_loadBalancerLoadSheddingStrategy
              value: {IMPL}.AvgShedder
            - {{name: PULSAR_PREFIX_loadBalancerAvgShedderLowThreshold, value: "20"}}
            - value: public/functions,tenant-a/ns1
              name: PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces
"""
CONFIG_MAP = f"""
apiVersion: v1
kind: ConfigMap
data:
  PULSAR_PREFIX_loadBalancerLoadSheddingStrategy: {IMPL}.AvgShedder
  loadBalancerAvgShedderLowThreshold: "20"   # percent
  PULSAR_GC: >
    -XX:+UseG1GC
    -XX:MaxGCPauseMillis=10
  PULSAR_PREFIX_loadBalancerSheddingExcludedNamespaces: >-
    public/functions,tenant-a/ns1
"""
WHOLE_FILE = f"""
kind: ConfigMap
data:
  broker.conf: |
    # of a broker
    loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder
    loadBalancerAvgShedderLowThreshold=20

    loadBalancerSheddingExcludedNamespaces=public/functions,tenant-a/ns1
"""
HELM_VALUES = f"""
zookeeper:
  configData:
    PULSAR_MEM: "-Xmx512m"
broker:
  service: {{loadBalancerIP: "", loadBalancerSourceRanges: []}}
  configData:
    PULSAR_PREFIX_loadBalancerLoadSheddingStrategy: {IMPL}.AvgShedder
    loadBalancerAvgShedderLowThreshold: '20'
    loadBalancerSheddingExcludedNamespaces: [public/functions, tenant-a/ns1]
"""
RUNTIME = {
    "loadBalancerLoadSheddingStrategy": f"{IMPL}.AvgShedder",
    "loadBalancerAvgShedderLowThreshold": "20",
    "loadBalancerSheddingExcludedNamespaces": "[public/functions, tenant-a/ns1]",
    "loadBalancerOverrideBrokerNicSpeedGbps": "Optional.empty",
    "brokerDeduplicationMaxNumberOfProducers": "10000",
    "defaultNamespaceBundleSplitAlgorithm": "null",
}
FORMS = {
    "broker.conf": BROKER_CONF,
    "quoted": QUOTED,
    "env-file": ENV_FILE,
    "export": EXPORTS,
    "docker-run": DOCKER_RUN,
    "-e": OPTIONS,
    "dockerfile": DOCKERFILE,
    "systemd": SYSTEMD,
    "helm-upgrade": HELM_UPGRADE,
    "compose-list": COMPOSE_LIST,
    "compose-map": COMPOSE_MAP,
    "container": CONTAINER,
    "config-map": CONFIG_MAP,
    "whole-file": WHOLE_FILE,
    "helm": HELM_VALUES,
    "runtime-pretty": json.dumps(RUNTIME, indent=2),
    "runtime-one-line": json.dumps(RUNTIME, separators=(",", ":")),
    "runtime-tabs": json.dumps(RUNTIME, indent="\t"),
    "runtime-columns": "".join(f"{key}    {value}\n" for key, value in RUNTIME.items()),
    "config-map-json": json.dumps({"kind": "ConfigMap", "data": {"broker.conf": BROKER_CONF}}),
    "docker-inspect": json.dumps(
        [{"Config": {"Env": [f"PULSAR_PREFIX_{k}={v}" for k, v in RUNTIME.items()]}}]
    ),
}


def write(folder: Path, text: str, encoding: str = "utf-8", ends: str = "\n") -> Path:
    """A file with this text."""
    file = folder / "broker.txt"
    file.write_bytes(text.replace("\n", ends).encode(encoding))
    return file


@pytest.mark.parametrize("form", FORMS)
def test_each_form_sets_what_it_says(tmp_path: Path, form: str) -> None:
    assert_sets(write(tmp_path, FORMS[form].lstrip()))


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("form", ["broker.conf", "helm", "whole-file", "runtime-pretty"])
def test_marks_and_ends_of_lines_change_nothing(
    tmp_path: Path, form: str, encoding: str, ends: str
) -> None:
    assert_sets(write(tmp_path, FORMS[form].lstrip(), encoding, ends))


def assert_sets(file: Path) -> None:
    """The file sets what every one of the forms says, and no key of it is unknown."""
    found = convert(file)
    assert {path: found.settings[path] for path in SET} == SET
    names = found.settings["limits.excluded_namespaces"].split(",")
    assert [name.strip() for name in names] == PROTECTED
    assert [warning for warning in found.warnings if "not a key" in warning] == []


@pytest.mark.parametrize("form", ["config-map", "whole-file", "container", "docker-run"])
def test_origins_name_the_line_of_the_file(tmp_path: Path, form: str) -> None:
    file = write(tmp_path, FORMS[form])
    key = "loadBalancerAvgShedderLowThreshold"
    lines = FORMS[form].splitlines()
    first = (
        2 if form == "docker-run" else 1 + next(n for n, line in enumerate(lines) if key in line)
    )

    assert convert(file).origins["shedding.avg.low_threshold"] == f"{file}:{first}: {key}"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('loadBalancerAvgShedderLowThreshold="20"', "quotation marks for a part of the value"),
        (
            "loadBalancerSheddingExcludedNamespaces=[public/functions, tenant-a/ns1]",
            "brackets for a part of the names",
        ),
        ("pulsar_prefix_loadBalancerAvgShedderLowThreshold=20", "PULSAR_PREFIX_, in capitals"),
        (
            "PULSAR_PREFIX_loadBalancerSheddngEnabled=true",
            "did you mean loadBalancerSheddingEnabled",
        ),
        ("PULSAR_PREFIX_LOADBALANCERENABLED=true", "not a key of Pulsar 4.2 or 5.0"),
        ("maxUnloadPercentge=0.5", "not a key of Pulsar 4.2 or 5.0; did you mean maxUnloadPerc"),
        (
            "env:\n- name: PULSAR_PREFIX_maxUnloadPercentage\n  valueFrom: {fieldRef: {}}",
            "has no value in this file",
        ),
        ("environment:\n- PULSAR_PREFIX_maxUnloadPercentage\n- A=b", "has no value in this file"),
        ("data:\n  maxUnloadPercentage:\n  a: b", "has no value in this file"),
        ("loadBalancerEnabled=false", "this broker reports no load"),
        (
            "loadManagerClassName=org.apache.pulsar.broker.loadbalance.NoopLoadManager",
            "this broker reports no load",
        ),
        (f"loadManagerClassName={IMPL}.SimpleLoadManagerImpl", "its load cannot be read"),
    ],
)
def test_what_pulsar_reads_otherwise_is_told_with_its_line(
    tmp_path: Path, text: str, warning: str
) -> None:
    file = write(
        tmp_path, f"{text}\nmaxUnloadBundleNumPerShedding=-1" if "\n" not in text else text
    )

    (told,) = [one for one in convert(file).warnings if warning in one]

    assert told.startswith(f"{file}:")


def test_a_broker_without_load_reports_sets_no_load_manager(tmp_path: Path) -> None:
    text = "loadManagerClassName=org.apache.pulsar.broker.loadbalance.NoopLoadManager"

    found = convert(write(tmp_path, text))

    assert "pulsar.load_manager" not in found.settings


@pytest.mark.parametrize(
    "key", ["loadBalancerServiceUnitTableViewSyncer", "loadManagerMigrationEnabled"]
)
def test_keys_of_either_release_are_known(tmp_path: Path, key: str) -> None:
    (told,) = convert(write(tmp_path, f"{key}=false")).warnings

    assert f": {key}: no effect: " in told


def test_yaml_that_cannot_be_read_is_told_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, "broker:\n  configData:\n    {{- toYaml .Values.x | nindent 4 }}\n")

    with pytest.raises(SettingsError) as caught:
        read_conf(file)

    (complaint,) = caught.value.complaints
    assert complaint.startswith(f"{file}:3: not YAML: ")
    assert "helm template" in complaint


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000], ids=["flow", "block"])
def test_yaml_that_nests_too_deeply_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_conf(write(tmp_path, text))

    assert caught.value.complaints[0].startswith(f"{tmp_path}")


def test_names_that_stand_for_one_another_are_read_once(tmp_path: Path) -> None:
    """Ten tables, each with ten times the one before, are not ten thousand million keys."""
    tables = ["a0: &a0 {maxUnloadPercentage: 0.5}"]
    tables += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]

    found = read_conf(write(tmp_path, "\n".join(tables)))

    assert [(one.key, one.value) for one in found] == [("maxUnloadPercentage", "0.5")]


def test_a_file_without_a_key_lists_the_forms_and_what_is_wrong(tmp_path: Path) -> None:
    answer = rebalancer(
        "config", "from-broker-conf", write(tmp_path, "pulsar_prefix_loadBalancerEnabled=true")
    )

    assert answer.code == 2
    assert "PULSAR_PREFIX_, in capitals" in answer.words
    assert "get-runtime-config" in answer.words
