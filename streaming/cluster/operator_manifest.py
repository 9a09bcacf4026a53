"""A manifest for Spark's operator on Kubernetes (SparkApplication, sparkoperator.k8s.io/v1beta2).
Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strategies.settings import VERSION
from streaming.cluster.application import Application
from streaming.cluster.shipping import UNPACKED, python_name
from streaming.settings import JobSettings

#: Folder of the application in the image.
IN_IMAGE = "/opt/pulsar-rebalancer"
IMAGE = f"pulsar-rebalancer-spark:{VERSION}"
SETTINGS = "/etc/pulsar-rebalancer"
SECRETS = "/run/secrets/pulsar-rebalancer"
STATE = "/var/lib/pulsar-rebalancer"
#: The job gets this long for its micro-batch after SIGTERM, as in deploy/kubernetes.
_GRACE_S = 120
_RETRY_S = 15
#: The user of Spark's own images.
_SPARK_USER = 185


def operator_manifest(
    application: Application,
    job: JobSettings,
    arguments: Sequence[str],
    image: str,
    spark_version: str,
) -> Mapping[str, Any]:
    """The object. `arguments`: of `rebalancer`. `image`: Spark's image with the application's
    folder as `IN_IMAGE`.
    """
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "pulsar-rebalancer", "namespace": "pulsar-rebalancer"},
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": spark_version,
            "image": image,
            "mainApplicationFile": _place(application.launcher),
            "arguments": list(arguments),
            "deps": _dependencies(application),
            "sparkConf": {"spark.pyspark.python": python_name()},
            # A driver ends with 0 after SIGTERM, which it also gets when its node is drained. After
            # settings that the program refuses it starts again too; its log has the reason.
            "restartPolicy": {
                "type": "Always",
                "onFailureRetryInterval": _RETRY_S,
                "onSubmissionFailureRetryInterval": _RETRY_S,
            },
            "volumes": _volumes(),
            "driver": {
                "cores": 1,
                "memory": job.driver_memory,
                "serviceAccount": "spark",
                "terminationGracePeriodSeconds": _GRACE_S,
                **_restricted(),
                "volumeMounts": [*_mounts(), _mount("settings", SETTINGS, read_only=True)],
            },
            "executor": {
                "cores": 1,
                "instances": 1,
                "memory": "1g",
                **_restricted(),
                "volumeMounts": _mounts(),
            },
        },
    }


def _dependencies(application: Application) -> dict[str, list[str]]:
    found = {
        "pyFiles": [_place(application.code)],
        "archives": [f"{_place(application.environment)}#{UNPACKED}"],
    }
    if application.jars:
        found["jars"] = [_place(f"jars/{jar}") for jar in application.jars]
    return found


def _place(name: str) -> str:
    """The URI of a file of the application in the image."""
    return f"local://{IN_IMAGE}/{name}"


def _restricted() -> dict[str, Any]:
    """What the namespace of deploy/kubernetes requires of a pod. The group may read the keys and
    write to the checkpoint's volume.
    """
    return {
        "podSecurityContext": {
            "runAsNonRoot": True,
            "runAsUser": _SPARK_USER,
            "fsGroup": _SPARK_USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _volumes() -> list[dict[str, Any]]:
    """With the names of deploy/kubernetes. Driver and executors share the checkpoint's volume: it
    needs the access mode ReadWriteMany.
    """
    return [
        {
            "name": "state",
            "persistentVolumeClaim": {"claimName": "pulsar-rebalancer-checkpoint"},
        },
        {"name": "settings", "configMap": {"name": "pulsar-rebalancer-settings"}},
        {
            "name": "secrets",
            "secret": {
                "secretName": "pulsar-rebalancer",
                "defaultMode": 0o440,
                "items": [{"key": name, "path": name} for name in ("pulsar-token", "signing-key")],
            },
        },
    ]


def _mounts() -> list[dict[str, Any]]:
    """What driver and executors read: the checkpoint, and the keys."""
    return [_mount("state", STATE), _mount("secrets", SECRETS, read_only=True)]


def _mount(name: str, path: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
