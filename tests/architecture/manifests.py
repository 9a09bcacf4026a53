"""Reads the manifests of deploy/kubernetes: objects, and what their pods run and mount."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a Deployment or Job, with a single container."""

    owner: Manifest

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.owner["spec"]["template"]["spec"]
        return spec

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.owner["spec"]["template"]["metadata"]["labels"]
        return labels

    @property
    def container(self) -> Manifest:
        container: Manifest
        (container,) = self.spec["containers"]
        return container

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


def objects(folder: Path) -> Iterator[tuple[Path, Manifest]]:
    """Every object in the files of a folder, with its file."""
    for file in sorted(folder.glob("*.yaml")):
        for one in yaml.safe_load_all(file.read_text("utf-8")):
            yield file, one
