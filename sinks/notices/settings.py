"""Settings of the notices: where they go, in which form, and about what."""

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import unquote_to_bytes, urlsplit

from sinks.secret_file import Secret, read_secret
from sinks.wire.signing_keys import read_keys
from strategies.errors import SettingsError, raise_complaints
from strategies.patterns_and_windows import patterns
from strategies.settings import Setting
from strategies.states_and_advice_of_codes import STATES

#: Kinds that are no states of a round. `test` and `ended` are always sent.
EVENTS = ("silent", "plan", "failed", "lost-destination")
KINDS = (*STATES, *EVENTS)
#: Characters that end a link in Slack's text.
_NO_LINK = frozenset("<>|")
_LONGEST_URL = 2_000


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """The process `notify`. Without `url` and `url_file` there is no webhook."""

    url: Annotated[
        str, Setting("Address of the webhook, if it contains no secret; empty = none")
    ] = ""
    url_file: Annotated[
        str, Setting("File with the address of the webhook, which may be a secret, as Slack's is")
    ] = ""
    form: Annotated[
        Literal["json", "slack"],
        Setting("Form of the notices: a JSON document, or a message for Slack's webhooks"),
    ] = "json"
    kinds: Annotated[
        str,
        Setting(
            "States of a round, and of silent, plan, failed, lost-destination those that notices "
            "are about, with commas between them"
        ),
    ] = "cannot-help,not-allowed,yielding,blind,set-aside,silent,failed,lost-destination"
    settle_rounds: Annotated[
        int,
        Setting(
            "Number of rounds in a row that a state, or its end, lasts before its notice",
            "",
            ge=1,
            le=10_000,
        ),
    ] = 5
    key_file: Annotated[
        str, Setting("File with the key that signs notices (HMAC-SHA256); empty = unsigned")
    ] = ""
    previous_key_file: Annotated[
        str,
        Setting(
            "While notices.key_file changes: file with the key before; notices then have both "
            "signatures; empty = none",
            "",
        ),
    ] = ""
    token_file: Annotated[
        str, Setting("File with a token for the header Authorization: Bearer; empty = no header")
    ] = ""
    tls_ca_file: Annotated[
        str, Setting("Trusted certificates (PEM) for https; empty = those of the system")
    ] = ""
    #: Timeout of one delivery.
    timeout_ms: int = 10_000
    #: Most deliveries of one notice before it is given up.
    attempts: int = 20
    #: Pause before the second delivery; doubles each time, up to 5 minutes.
    backoff_ms: int = 1_000
    state: Annotated[
        str,
        Setting("Folder of the positions and the notices in progress; only one process can use it"),
    ] = "/var/lib/pulsar-rebalancer/notices"
    link: Annotated[
        str, Setting("Address of a page about the clusters, which notices link to; empty = none")
    ] = ""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where and how notices are sent. `url` may contain a secret: only `host` is printed.

    `keys`: each signs; none = unsigned. `authorization`: the value of this header, None = no
    header.
    """

    url: str = field(repr=False)
    host: str
    form: Literal["json", "slack"]
    keys: tuple[Secret, ...] = ()
    authorization: Secret | None = None
    tls_ca_file: str = ""


def webhook(settings: NoticeSettings) -> Webhook:
    """The webhook of the settings; reads the files of secrets. Raises SettingsError, which never
    contains a secret.
    """
    check_notices(settings)
    if not settings.url and not settings.url_file:
        raise SettingsError(
            ["notices.url_file: no webhook; name a file with its address here, or set notices.url"]
        )
    url = settings.url
    if settings.url_file:
        secret = read_secret(settings.url_file, "notices.url_file").reveal()
        url = secret.decode("ascii", errors="replace")
        if problem := _problem(url):
            raise SettingsError([f"notices.url_file: the address in {settings.url_file} {problem}"])
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return Webhook(
        parts._replace(netloc=host).geturl(),
        host,
        settings.form,
        read_keys(settings.key_file, settings.previous_key_file, "notices", "key_file"),
        _token(settings) or _login(parts.username, parts.password),
        settings.tls_ca_file,
    )


def check_notices(settings: NoticeSettings) -> None:
    """Checks the settings alone; reads no file. Raises SettingsError, which never quotes `url`."""
    found = [
        f"notices.kinds: {kind} is no kind of notice; choose from {', '.join(KINDS)}"
        for kind in patterns(settings.kinds)
        if kind not in KINDS
    ]
    url = settings.url
    if url and settings.url_file:
        found.append("notices.url: set only one of notices.url and notices.url_file")
    if url and (problem := _problem(url)):
        found.append(f"notices.url: the address {problem}")
    elif url and (settings.form == "slack" or "@" in urlsplit(url).netloc):
        found.append(
            "notices.url: this address contains a secret; put it into a file and name the file "
            "in notices.url_file"
        )
    if settings.link and (_problem(settings.link) or "@" in urlsplit(settings.link).netloc):
        found.append(
            "notices.link: write http://host:port/ or https://…, without user and password"
        )
    if not settings.state.startswith("/") or "\0" in settings.state:
        found.append(
            f"notices.state: {settings.state!r} is no absolute path; name a folder of this machine"
        )
    raise_complaints(found)


def notice_kinds(settings: NoticeSettings) -> frozenset[str]:
    """The kinds that are wanted."""
    return frozenset(patterns(settings.kinds))


def _problem(url: str) -> str:
    """What is wrong with an address, without the address; empty if it is usable."""
    if len(url) > _LONGEST_URL:
        return f"has more than {_LONGEST_URL:,} characters"
    if not url.isascii() or not url.isprintable() or " " in url or {*url} & _NO_LINK:
        return "has other characters than an address has; encode them with %"
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    return "" if complete else "is not complete; write http://host:port/path or https://…"


def _token(settings: NoticeSettings) -> Secret | None:
    if not settings.token_file:
        return None
    token = read_secret(settings.token_file, "notices.token_file", is_token=True)
    return Secret(b"Bearer " + token.reveal())


def _login(user: str | None, password: str | None) -> Secret | None:
    """User and password of an address, as HTTP sends them."""
    if user is None:
        return None
    return Secret(b"Basic " + b64encode(unquote_to_bytes(f"{user}:{password or ''}")))
