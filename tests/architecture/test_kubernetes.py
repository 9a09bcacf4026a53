"""The manifests of deploy/kubernetes are objects of Kubernetes, and agree with the images, the
settings and each other. No cluster is needed.
"""

import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import kubernetes_validate
import pytest
import yaml

from pulsar_rebalancer.settings.merge_sources import load
from sinks.metrics.settings import listen_address
from tests.architecture.command_line import ROOT, run, unknown_options
from tests.architecture.containers import command_line, read_compose, read_image
from tests.architecture.units import read_unit

Manifest = Mapping[str, Any]
FOLDER = ROOT / "deploy/kubernetes"
#: Every object, with its file.
OBJECTS: list[tuple[Path, Manifest]] = [
    (file, one)
    for file in sorted(FOLDER.glob("*.yaml"))
    for one in yaml.safe_load_all(file.read_text("utf-8"))
]
COMPOSE = read_compose(ROOT / "docker/compose.yaml")["services"]
#: The oldest and the newest version of Kubernetes whose schemas are installed.
VERSIONS = ("1.25", "1.37")
#: Kinds of other projects, for which Kubernetes has no schema.
FOREIGN = ("Kustomization", "ServiceMonitor")
#: Applied separately: for the Prometheus Operator only; a Job, which runs once; for notices only.
SEPARATE = {"service-monitor.yaml", "topics.yaml", "notifier.yaml"}
STATE = "/var/lib/pulsar-rebalancer"


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a Deployment or Job, with a single container."""

    owner: Manifest

    @property
    def spec(self) -> Manifest:
        return cast(Manifest, self.owner["spec"]["template"]["spec"])

    @property
    def labels(self) -> Manifest:
        return cast(Manifest, self.owner["spec"]["template"]["metadata"]["labels"])

    @property
    def container(self) -> Manifest:
        (container,) = self.spec["containers"]
        return cast(Manifest, container)

    @property
    def mounts(self) -> dict[str, Manifest]:
        """Path in the container → volume."""
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        return {one["mountPath"]: volumes[one["name"]] for one in self.container["volumeMounts"]}

    @property
    def secret_files(self) -> set[str]:
        """The paths of all files that come from Secrets."""
        return {
            f"{path}/{item['path']}"
            for path, volume in self.mounts.items()
            for item in volume.get("secret", {}).get("items", ())
        }


#: Every process by the name of its service in the compose file.
PODS = {
    one["metadata"]["labels"]["app.kubernetes.io/component"]: Pod(one)
    for _, one in OBJECTS
    if one["kind"] == "Deployment"
}
EVERY_POD = pytest.mark.parametrize("process", PODS)


def the(kind: str) -> Manifest:
    """The only object of a kind."""
    (found,) = [one for _, one in OBJECTS if one["kind"] == kind]
    return found


SETTINGS = the("ConfigMap")["data"]["rebalancer.toml"]
TABLES = tomllib.loads(SETTINGS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("file", "manifest"),
    [(file, one) for file, one in OBJECTS if one["kind"] not in FOREIGN],
    ids=lambda it: it.stem if isinstance(it, Path) else "",
)
def test_an_object_keeps_to_the_schema_of_kubernetes(
    file: Path, manifest: Manifest, version: str
) -> None:
    assert kubernetes_validate.validate(manifest, version, strict=True) == version, file.name


def test_the_page_names_the_versions_whose_schemas_are_checked() -> None:
    page = " ".join((ROOT / "docs/DEPLOYMENT.md").read_text("utf-8").split())

    assert f"the schemas of Kubernetes {' and '.join(VERSIONS)}," in page


def test_the_kustomization_has_both_images_and_every_file_not_applied_separately() -> None:
    files = {file.name for file in FOLDER.glob("*.yaml")}
    text = (FOLDER / "kustomization.yaml").read_text("utf-8")

    assert {*the("Kustomization")["resources"]} == files - {"kustomization.yaml"} - SEPARATE
    assert {f"{one['name']}:{one['newTag']}" for one in the("Kustomization")["images"]} == {
        pod.container["image"] for pod in PODS.values()
    }
    assert "  # - service-monitor.yaml\n" in text
    assert "  # - notifier.yaml\n" in text


@pytest.mark.heavy
def test_kustomize_makes_all_objects_in_one_namespace(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed; the list of files was checked without it")
    folder = Path(shutil.copytree(FOLDER, tmp_path / "kubernetes"))
    file = folder / "kustomization.yaml"
    file.write_text(file.read_text("utf-8").replace("  # - ", "  - "))

    answer = run("kubectl", "kustomize", str(folder))

    assert answer.returncode == 0, answer.stdout
    made = list(yaml.safe_load_all(answer.stdout))
    assert sorted(one["kind"] for one in made) == sorted(
        one["kind"] for _, one in OBJECTS if one["kind"] not in ("Kustomization", "Job")
    )
    assert {one["metadata"].get("namespace", one["metadata"]["name"]) for one in made} == {
        "pulsar-rebalancer"
    }


def test_there_is_one_pod_for_each_process_and_never_two_of_it() -> None:
    assert set(PODS) == {"collector", "job", "executor", "page", "notifier"}
    for pod in PODS.values():
        assert pod.owner["spec"]["replicas"] == 1
        assert pod.owner["spec"]["strategy"] == {"type": "Recreate"}
        assert pod.owner["spec"]["selector"]["matchLabels"] == pod.labels


@EVERY_POD
def test_a_pod_runs_the_image_and_the_command_of_its_container(process: str) -> None:
    service, container = COMPOSE[process], PODS[process].container
    image = read_image(ROOT / service["build"]["dockerfile"])
    words = (*image.entrypoint, *container["args"])

    assert container["image"] == service["image"]
    assert "command" not in container
    assert words == command_line(service, ROOT)


def test_the_topics_are_created_with_the_settings_and_the_token_of_the_processes() -> None:
    topics, collector = Pod(the("Job")), PODS["collector"]

    assert topics.container["image"] == collector.container["image"]
    assert unknown_options(("rebalancer", *topics.container["args"])) == []
    assert topics.container["args"][-2:] == collector.container["args"][-2:]
    assert topics.mounts.items() <= collector.mounts.items()
    assert topics.container["securityContext"] == collector.container["securityContext"]


def test_the_executor_makes_a_dry_run_and_its_comment_says_how_to_apply() -> None:
    assert "--apply" not in PODS["executor"].container["args"]
    assert (
        '# A dry run. To apply commands, switch the brokers\' own shedder off, then add "--apply"'
        in (FOLDER / "executor.yaml").read_text("utf-8")
    )
    assert unknown_options(("rebalancer", "execute", "--apply")) == []


@EVERY_POD
def test_a_pod_has_the_user_of_its_image_and_no_privileges(process: str) -> None:
    pod = PODS[process]
    user = int(read_image(ROOT / COMPOSE[process]["build"]["dockerfile"]).user)
    context = pod.spec["securityContext"]

    assert {context[name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {user}
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod.spec["automountServiceAccountToken"] is False
    # Variables with the names of services would be settings that do not exist.
    assert pod.spec["enableServiceLinks"] is False


@EVERY_POD
def test_a_pod_can_write_to_its_state_and_to_tmp_only(process: str) -> None:
    mounts = PODS[process].mounts
    dockerfile = (ROOT / COMPOSE[process]["build"]["dockerfile"]).read_text("utf-8")
    writable = {
        path for path, volume in mounts.items() if not {"configMap", "secret"} & set(volume)
    }

    assert writable - {STATE} == {"/tmp"}
    assert (STATE in writable) == (process != "collector")
    assert f"WORKDIR {STATE}\n" in dockerfile
    assert "emptyDir" in mounts["/tmp"]


def test_the_temporary_files_of_the_job_are_on_the_disk_of_its_checkpoint() -> None:
    """A backlog of large records needs twice its size; beyond an emptyDir's limit a pod ends."""
    pod = PODS["job"]
    (variable,) = pod.container["env"]

    assert variable == {"name": "TMPDIR", "value": STATE}
    assert "persistentVolumeClaim" in pod.mounts[STATE]


def test_the_state_of_job_and_executor_outlives_their_pods() -> None:
    claims = {
        one["metadata"]["name"] for _, one in OBJECTS if one["kind"] == "PersistentVolumeClaim"
    }
    used = {
        process: pod.mounts.get(STATE, {}).get("persistentVolumeClaim", {}).get("claimName")
        for process, pod in PODS.items()
    }

    assert used == {
        "collector": None,
        "job": "pulsar-rebalancer-checkpoint",
        "executor": "pulsar-rebalancer-executor",
        "page": None,
        "notifier": "pulsar-rebalancer-notifier",
    }
    assert set(used.values()) - {None} == claims
    states = TABLES["executor"]["state"], TABLES["notices"]["state"]
    for folder in (TABLES["job"]["checkpoint"], *states):
        assert Path(STATE) in Path(folder).parents


@EVERY_POD
def test_a_pod_reads_the_settings_where_its_command_looks(process: str) -> None:
    pod = PODS[process]
    (folder,) = [path for path, volume in pod.mounts.items() if "configMap" in volume]
    (file,) = the("ConfigMap")["data"]

    assert pod.container["args"][-2:] == ["--config", f"{folder}/{file}"]
    assert pod.mounts[folder]["configMap"]["name"] == the("ConfigMap")["metadata"]["name"]


def test_secrets_are_named_and_not_contained() -> None:
    token, key = TABLES["pulsar"]["token_file"], TABLES["signing"]["key_file"]
    people = TABLES["serve"]["token_file"]

    assert [file.name for file, one in OBJECTS if one["kind"] == "Secret"] == []
    assert {process: pod.secret_files for process, pod in PODS.items()} == {
        "collector": {token},
        "job": {token, key},
        "executor": {token, key},
        # The page checks no signature: executors do.
        "page": {token, people},
        "notifier": {token, key, TABLES["notices"]["url_file"], TABLES["notices"]["key_file"]},
    }


def test_the_page_creates_the_secret_with_the_keys_that_pods_mount() -> None:
    page = (ROOT / "docs/DEPLOYMENT.md").read_text("utf-8")
    secrets = {
        volume["secret"]["secretName"]: [item["key"] for item in volume["secret"]["items"]]
        for pod in (PODS["job"], PODS["notifier"])
        for volume in pod.spec["volumes"]
        if "secret" in volume
    }

    assert list(secrets) == ["pulsar-rebalancer", "pulsar-rebalancer-notices"]
    for secret, keys in secrets.items():
        (command,) = [it for it in page.splitlines() if f"create secret generic {secret} " in it]
        assert [key for key in keys if f"--from-file={key}=" not in command] == []


@EVERY_POD
def test_probes_and_metrics_are_on_the_port_of_the_settings(process: str) -> None:
    container = PODS[process].container
    host, port = TABLES["metrics"]["listen"].rsplit(":", 1)

    # The kubelet and Prometheus ask the address of the pod.
    assert host == "0.0.0.0"
    assert container["ports"][0] == {"name": "metrics", "containerPort": int(port)}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}


def test_the_live_page_is_on_the_port_of_the_settings() -> None:
    listen = TABLES["serve"]["listen"]

    assert PODS["page"].container["ports"][1:] == [
        {"name": "page", "containerPort": int(listen.rpartition(":")[2])}
    ]
    assert listen.startswith("0.0.0.0:"), "port-forward reaches the address of the pod"
    assert all(len(pod.container["ports"]) == 1 for name, pod in PODS.items() if name != "page")


def test_prometheus_finds_the_port_of_every_pod() -> None:
    service, monitor = the("Service"), the("ServiceMonitor")
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    labels = service["metadata"]["labels"]

    assert all(service["spec"]["selector"].items() <= pod.labels.items() for pod in PODS.values())
    assert TABLES["metrics"]["listen"].endswith(f":{port['port']}")
    assert (port["targetPort"], endpoint["port"]) == ("metrics", port["name"])
    assert endpoint["path"] == "/metrics"
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["jobLabel"] in labels
    assert all(
        label in pod.labels for pod in PODS.values() for label in monitor["spec"]["podTargetLabels"]
    )


def test_only_prometheus_may_connect_to_the_pods_and_only_to_their_metrics() -> None:
    policy = the("NetworkPolicy")["spec"]
    (rule,) = policy["ingress"]

    assert policy["policyTypes"] == ["Ingress"]
    for pod in PODS.values():
        assert policy["podSelector"]["matchLabels"].items() <= pod.labels.items()
    assert rule["ports"] == [{"port": PODS["page"].container["ports"][0]["name"]}]
    assert [list(one["podSelector"]["matchLabels"].values()) for one in rule["from"]] == [
        ["prometheus"]
    ]
    text = (FOLDER / "network-policy.yaml").read_text("utf-8")
    assert "    #     - port: page\n" in text, "an Ingress to the page is a few # away"


@EVERY_POD
def test_a_pod_names_the_resources_and_the_time_to_stop_that_it_needs(process: str) -> None:
    resources = PODS[process].container["resources"]
    unit = read_unit(ROOT / f"deploy/systemd/pulsar-rebalancer-{process}.service")
    grace = PODS[process].spec["terminationGracePeriodSeconds"]

    assert str(grace) == unit.value("Service", "TimeoutStopSec")
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}
    assert all(
        "sizeLimit" in it["emptyDir"] for it in PODS[process].spec["volumes"] if "emptyDir" in it
    )


def test_the_settings_are_good(tmp_path: Path) -> None:
    file = tmp_path / "rebalancer.toml"
    file.write_text(SETTINGS, "utf-8")

    settings = load(file)

    assert settings.warnings == []
    assert listen_address(settings.metrics) is not None
    # Pods share no folder.
    assert {topic.scheme for _, topic in settings.connections.topics.named()} == {"pulsar"}
