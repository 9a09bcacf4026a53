"""Batches are unpacked within a bound, whatever the codec; what is broken is one kind of error;
doctor names a codec that does not work.
"""

from __future__ import annotations

import os

import pytest
from kafka import codec as codecs
from kafka.errors import CorruptRecordError

from pulsar_rebalancer.doctor.disk_and_topics import check_codecs
from sinks.topics.addresses import Topics
from sinks.topics.kafka.codecs import PACKAGES, broken_codecs, unpacked
from tests.topic_uris import topics_of

KAFKA = topics_of(telemetry="kafka://h:9092/t")
CONTENTS = (b"", b"x", os.urandom(100_000), b"a load report " * 50_000)


def packed(codec: str, content: bytes) -> bytes:
    return bytes(getattr(codecs, f"{codec}_encode")(content))


@pytest.mark.parametrize("codec", PACKAGES)
def test_what_was_packed_comes_back_up_to_the_bound(codec: str) -> None:
    for content in CONTENTS:
        assert unpacked(codec, packed(codec, content)) == content
        assert unpacked(codec, packed(codec, content), len(content)) == content
    with pytest.raises(CorruptRecordError, match="BatchTooLarge"):
        unpacked(codec, packed(codec, CONTENTS[-1]), len(CONTENTS[-1]) - 1)


@pytest.mark.parametrize("codec", PACKAGES)
def test_what_is_no_batch_of_this_codec_is_one_kind_of_error(codec: str) -> None:
    for broken in (b"\0" * 50, b"\xff" * 50, os.urandom(200)):
        with pytest.raises(CorruptRecordError, match=r"BatchUnreadable|BatchTooLarge"):
            unpacked(codec, broken)


def test_a_block_of_snappy_may_claim_any_length() -> None:
    with pytest.raises(CorruptRecordError, match="BatchTooLarge"):
        unpacked("snappy", b"\xff\xff\xff\xff\x0f" + b"x" * 20)


def test_gzip_may_have_several_members() -> None:
    assert unpacked("gzip", packed("gzip", b"one ") + packed("gzip", b"two")) == b"one two"


def test_all_codecs_work_here_and_doctor_names_those_that_do_not() -> None:
    assert broken_codecs() == []
    (fine,) = check_codecs(KAFKA)
    (found,) = check_codecs(KAFKA, lambda: ["snappy", "lz4"])
    assert (fine.status, found.status, found.remedy) == (
        "ok",
        "fail",
        "pip install python-snappy lz4",
    )
    assert found.text.startswith("records in snappy and lz4 cannot be read")
    assert check_codecs(Topics(), lambda: ["lz4"]) == []
