"""Reads the Dockerfiles and the compose file: which container runs which command, as whom, and with
which settings.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Compose = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """What a Dockerfile says of its final stage; `copied` are the sources of all COPY instructions
    that read the project folder.
    """

    base: str
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: tuple[str, ...]
    copied: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A service of the compose file that runs one of our images; `words` is its command line, entry
    point first.
    """

    service: str
    words: tuple[str, ...]
    profiles: tuple[str, ...]


def read_image(dockerfile: Path) -> Image:
    """The final stage of a Dockerfile. Exec form is expected of ENTRYPOINT, CMD and HEALTHCHECK;
    anything else is a ValueError.
    """
    instructions = read_instructions(dockerfile.read_text("utf-8"))
    last = dict(instructions)  # of instructions that come several times, the final stage's
    return Image(
        base=last["FROM"].split()[0],
        user=last.get("USER", "root"),
        entrypoint=words_of(last["ENTRYPOINT"]),
        command=words_of(last["CMD"]),
        health=words_of(last["HEALTHCHECK"].partition(" CMD ")[2]),
        copied=tuple(
            rest.split()[0]
            for name, rest in instructions
            if name == "COPY" and not rest.startswith("--from")
        ),
    )


def read_instructions(text: str) -> list[tuple[str, str]]:
    """Name and rest of every instruction, comments left out and continued lines joined."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def words_of(exec_form: str) -> tuple[str, ...]:
    return tuple(json.loads(exec_form))


def read_compose(file: Path) -> Compose:
    """The compose file with its merge keys resolved."""
    compose: Compose = yaml.safe_load(file.read_text("utf-8"))
    return compose


def our_containers(compose: Compose, folder: Path) -> list[Container]:
    """The services whose image is built here; `folder` is the project's."""
    return [
        Container(name, command_line(service, folder), tuple(service.get("profiles", ())))
        for name, service in compose["services"].items()
        if "build" in service
    ]


def command_line(service: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    image = read_image(folder / service["build"]["dockerfile"])
    entrypoint = tuple(service.get("entrypoint", image.entrypoint))
    # An entry point of its own makes a container forget the image's command.
    command = tuple(service.get("command", () if "entrypoint" in service else image.command))
    return entrypoint + command
