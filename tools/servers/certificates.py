"""Keys and certificates for tests, made once by Java's keytool and kept in the cache."""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.servers.java_here import keytool

#: Of stores that exist for tests only.
PASSWORD = "changeit"
_DAYS = "3650"
#: Kafka's address, and those of the Pulsar cluster that has TLS listeners.
_HOSTS = "ip:127.0.0.1,dns:localhost,ip:127.0.42.1,ip:127.0.42.2,ip:127.0.42.3"
_EXTENSIONS = (
    "-ext",
    f"san={_HOSTS}",
    "-ext",
    "bc=ca:true",
    "-ext",
    "ku=digitalSignature,keyEncipherment,keyCertSign",
)


@dataclass(frozen=True)
class Certificates:
    """`ca`: what clients trust, which is the broker's own certificate; `client_cert`: what a client
    shows; PEM. Keys need openssl.
    """

    folder: Path
    broker_store: Path
    trusted_store: Path
    ca: Path
    broker_key: Path
    client_cert: Path
    client_key: Path


def _inside(folder: Path) -> Certificates:
    files = ("broker.p12", "trusted.p12", "broker.pem", "broker.key", "client.pem", "client.key")
    return Certificates(folder, *(folder / file for file in files))


def certificates(cache: Path) -> Certificates:
    """Those of the cache, made if they are not there."""
    kept = cache / "certificates-2"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _make(_inside(Path(folder)))
            new = Path(folder).rename(cache / f"{Path(folder).name}-done")
            Path(folder).mkdir()  # for the context manager to remove
        try:
            new.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(new)
    return _inside(kept)


def _make(made: Certificates) -> None:
    for name in ("broker", "client"):
        _key_pair(made.folder, name)
    keytool(
        "-importcert",
        "-noprompt",
        "-alias",
        "client",
        "-file",
        str(made.client_cert),
        *_store(made.trusted_store),
    )
    if shutil.which("openssl"):
        for key in (made.broker_key, made.client_key):
            command = [
                "openssl",
                "pkcs12",
                "-in",
                str(key.with_suffix(".p12")),
                "-nodes",
                "-nocerts",
                "-passin",
                f"pass:{PASSWORD}",
            ]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            key.write_text(text[text.index("-----BEGIN") :], "utf-8")


def _key_pair(folder: Path, name: str) -> None:
    store = _store(folder / f"{name}.p12")
    keytool(
        "-genkeypair",
        "-alias",
        name,
        "-keyalg",
        "RSA",
        "-dname",
        f"CN={name}",
        "-validity",
        _DAYS,
        *_EXTENSIONS,
        *store,
    )
    keytool("-exportcert", "-rfc", "-alias", name, "-file", str(folder / f"{name}.pem"), *store)


def _store(file: Path) -> tuple[str, ...]:
    return ("-keystore", str(file), "-storetype", "PKCS12", "-storepass", PASSWORD)
