"""Settings of Kafka: complaints all at once, one meaning for both clients, secrets nowhere in
print. Batches are unpacked within a bound, whatever the codec.
"""

import os
from pathlib import Path

import pytest
from kafka import codec as codecs
from kafka.errors import CorruptRecordError

from pulsar_rebalancer.doctor.disk_and_topics import check_codecs
from sinks.topics.kafka.codecs import PACKAGES, broken_codecs, unpacked
from sinks.topics.kafka.settings import KafkaSettings, kafka_access, start_ms
from sinks.topics.topic_settings import Topics
from strategies.errors import SettingsError
from tests.topic_uris import topics_of


def login(folder: Path, password: str = "secret") -> KafkaSettings:
    file = folder / "password"
    file.write_text(password + "\n", "utf-8")
    return KafkaSettings("SASL_SSL", username="ann", password_file=str(file), ca_file="")


def test_without_security_nothing_is_read() -> None:
    access = kafka_access(KafkaSettings(password_file="/nowhere", ca_file="/nowhere"))
    times = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), "30000")
    assert access.for_java() == {"security.protocol": "PLAINTEXT", **times}
    assert "ssl_cafile" not in access.for_python()


def test_a_login_means_the_same_to_both_clients_and_its_password_shows_nowhere(
    tmp_path: Path,
) -> None:
    access = kafka_access(login(tmp_path))
    python, java = access.for_python(), access.for_java()
    assert (python["sasl_mechanism"], java["sasl.mechanism"]) == ("SCRAM-SHA-512", "SCRAM-SHA-512")
    assert (python["sasl_plain_username"], python["sasl_plain_password"]) == ("ann", "secret")
    assert java["sasl.jaas.config"].endswith(
        'scram.ScramLoginModule required username="ann" password="secret";'
    )
    assert "secret" not in repr(access) + str(access) + repr(access.settings)


def test_a_password_cannot_break_out_of_its_quotes(tmp_path: Path) -> None:
    java = kafka_access(login(tmp_path, 'a"b\\c;')).for_java()
    assert java["sasl.jaas.config"].endswith('password="a\\"b\\\\c;";')


def test_everything_that_is_wrong_is_told_at_once() -> None:
    settings = KafkaSettings(
        "SASL_SSL", cert_file="/no/cert", ca_file="/no/ca.pem", start="yesterday"
    )
    with pytest.raises(SettingsError) as wrong:
        kafka_access(settings)
    names = ("username", "password_file", "key_file", "cert_file", "ca_file", "start")
    said = [complaint.split(":")[0] for complaint in wrong.value.complaints]
    assert said == [f"kafka.{name}" for name in names]


def test_files_without_certificate_or_key_are_told_before_anybody_is_called(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello", "utf-8")
    notes = str(tmp_path / "notes")
    with pytest.raises(SettingsError) as wrong:
        kafka_access(KafkaSettings("SSL", ca_file=notes, cert_file=notes, key_file=notes))
    kinds = (("cert", "certificate"), ("key", "private key"), ("ca", "certificate"))
    for complaint, (name, what) in zip(wrong.value.complaints, kinds, strict=True):
        assert complaint.startswith(f"kafka.{name}_file: {notes} contains no {what} in PEM form ")


def test_all_that_a_system_trusts_may_be_trusted(tmp_path: Path) -> None:
    one = "-----BEGIN CERTIFICATE-----\n" + "A" * 1_500 + "\n-----END CERTIFICATE-----\n"
    (tmp_path / "bundle.crt").write_text(one * 150, "ascii")
    access = kafka_access(KafkaSettings("SSL", ca_file=str(tmp_path / "bundle.crt")))
    assert access.for_java()["ssl.truststore.certificates"].count("BEGIN") == 150


@pytest.mark.parametrize(
    ("start", "ms"),
    [
        ("earliest", None),
        ("latest", None),
        ("1767225600000", 1767225600000),
        ("2026-01-01T00:00:00Z", 1767225600000),
        ("2026-01-01T01:00:00+01:00", 1767225600000),
        ("2026-01-01", 1767225600000),
    ],
)
def test_a_start_is_a_word_or_a_moment(start: str, ms: int | None) -> None:
    assert start_ms(start) == ms


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
    kafka = topics_of(telemetry="kafka://h:9092/t")
    (fine,) = check_codecs(kafka)
    (found,) = check_codecs(kafka, lambda: ["snappy", "lz4"])
    assert (fine.status, found.status) == ("ok", "fail")
    assert found.remedy == "pip install python-snappy lz4"
    assert found.text.startswith("records in snappy and lz4 cannot be read")
    assert check_codecs(Topics(), lambda: ["lz4"]) == []
