"""Doctor looks at the life of a token: a JWT says when it begins and ends, others do not."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.finding import Finding
from pulsar_rebalancer.doctor.token import check_expiry
from sinks.pulsar_api.settings import PulsarSettings
from tests.unit.command_line import rebalancer

NOW = 1_800_000_000
HOUR, DAY = 3_600, 86_400


def part(tree: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


def jwt(**claims: object) -> str:
    return f"{part({'alg': 'HS256'})}.{part({'sub': 'admin', **claims})}.c2lnbmF0dXJl"


def told(folder: Path, token: str) -> Finding:
    (folder / "token").write_text(token)
    (found,) = check_expiry(PulsarSettings("c", token_file=str(folder / "token")), NOW)
    return found


@pytest.mark.parametrize(
    ("claims", "status", "text"),
    [
        ({}, "ok", "the token never expires"),
        ({"exp": NOW + 30 * DAY}, "ok", "the token expires in 30 d"),
        ({"exp": NOW + 3 * DAY}, "warn", "the token expires in 3 d"),
        ({"exp": NOW + 3 * HOUR + 0.5}, "warn", "the token expires in 3 h"),
        ({"exp": NOW + 55 * 60, "iat": NOW - 5 * 60}, "ok", "the token expires in 55 min"),
        ({"exp": NOW + 5 * 60, "iat": NOW - 55 * 60}, "warn", "the token expires in 5 min"),
        ({"exp": NOW}, "fail", "the token expired 0 s ago"),
        ({"exp": NOW - 2 * DAY, "nbf": NOW + DAY}, "fail", "the token expired 2 d ago"),
        (
            {"exp": NOW + 30 * DAY, "nbf": NOW + 2 * HOUR},
            "fail",
            "the token is not valid before 2 h from now",
        ),
        ({"exp": NOW + 30 * DAY, "nbf": NOW - 1}, "ok", "the token expires in 30 d"),
        ({"exp": 10**400}, "ok", "the token expires in 11574053240 d"),
        ({"exp": "tomorrow"}, "warn", "the token's exp is not a number"),
        ({"exp": True}, "warn", "the token's exp is not a number"),
    ],
)
def test_the_end_of_a_token_is_told_in_time(
    tmp_path: Path, claims: dict[str, object], status: str, text: str
) -> None:
    found = told(tmp_path, jwt(**claims))
    assert (found.status, found.text) == (status, text)
    assert bool(found.remedy) == (status != "ok")


@pytest.mark.parametrize(
    "token",
    [
        "opaque",
        "a.b",
        "a.b.c.d.e",
        f"x.{part([1])}.y",
        f"x.{part(None)}.y",
        "x.\u00e4.y",
        "x.%%%.y",
        "x." + "W" * 4000 + ".y",
    ],
)
def test_an_opaque_token_is_fine(tmp_path: Path, token: str) -> None:
    found = told(tmp_path, token)
    assert (found.status, found.text) == ("ok", "the token states no expiry")


def test_a_token_that_cannot_be_read_is_a_failure_and_no_token_is_nothing(tmp_path: Path) -> None:
    (found,) = check_expiry(PulsarSettings("c", token_file=str(tmp_path / "missing")), NOW)
    assert (found.status, "cannot be read" in found.text) == ("fail", True)
    assert check_expiry(PulsarSettings("c"), NOW) == []


def test_an_expired_token_is_told_though_no_cluster_answers(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(jwt(exp=1))
    given = [
        "pulsar.cluster=c",
        "pulsar.admin_urls=http://127.0.0.1:1",
        f"pulsar.token_file={tmp_path / 'token'}",
    ]
    answer = rebalancer(
        "doctor", "--no-spark-start", "--json", *(word for one in given for word in ("--set", one))
    )
    found = {one["check"]: one["status"] for one in answer.json["findings"]}
    assert (found["token expiry"], found["cluster"], answer.code) == ("fail", "fail", 1)
    assert (tmp_path / "token").read_text() not in answer.out
