"""Types of single fields, with their bounds, shared by all contracts."""

from typing import Annotated, Literal, TypeVar

from msgspec import UNSET, Meta, UnsetType

from strategies.cluster.model import LARGEST_TIME

T = TypeVar("T")
#: Largest integer that float64 represents exactly; figures from 2^63 on are refused as not
#: measured.
LARGEST_INTEGER = 2**53
LARGEST_FIGURE = 2.0**63

LONGEST_NAME = 512

Version = Annotated[Literal[1], Meta(description="version of the contract")]
Cluster = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, description="name of the Pulsar cluster")
]
#: For the schemas; sinks/wire/names_and_times.py checks the same, faster than the decoder.
BROKER_PATTERN = r"^[^/\s]+:[0-9]{1,5}$"
BUNDLE_PATTERN = r"^[^/]+/[^/]+(/[^/]+)?/0x[0-9a-fA-F]{8}_0x([0-9a-fA-F]{8}|100000000)$"

Broker = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="broker id, host:port of its web service",
        extra_json_schema={"pattern": BROKER_PATTERN},
    ),
]
Bundle = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="tenant/namespace/0xLLLLLLLL_0xUUUUUUUU, the lower end below the upper",
        extra_json_schema={"pattern": BUNDLE_PATTERN},
    ),
]
Text = Annotated[str, Meta(description="a sentence for people")]
Milliseconds = Annotated[int, Meta(ge=0, le=LARGEST_TIME, description="ms since the epoch")]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Duration = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER, description="ms")]
Figure = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE)]
MsgRate = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE, description="messages/s")]
Throughput = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE, description="bytes/s")]


Fraction = Annotated[float, Meta(description="fraction of what is possible, 1.0 = 100 %")]
Signature = Annotated[
    str,
    Meta(
        description="HMAC-SHA256 (hex) over the bytes of the record without this field; the last "
        "one, if there is a key"
    ),
]
IntentId = Annotated[
    str,
    Meta(
        min_length=32,
        max_length=32,
        description="32 hex digits",
        extra_json_schema={"pattern": "^[0-9a-f]{32}$"},
    ),
]
Scalar = str | int | float | bool | None


def or_unset(value: T | None) -> T | UnsetType:
    """The value of a field that a record may lack; None leaves it out."""
    return UNSET if value is None else value


def or_none(value: T | UnsetType) -> T | None:
    """The inverse of `or_unset`."""
    return None if isinstance(value, UnsetType) else value
