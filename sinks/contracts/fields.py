"""Types of single fields, with their bounds, shared by all contracts."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

#: Larger figures than these cannot be kept exactly, or are no figures of this world.
LARGEST_INTEGER = 2**53
LARGEST_FIGURE = 2.0**63

LONGEST_NAME = 512
LONGEST_TEXT = 4096

Version = Annotated[Literal[1], Meta(description="version of the contract")]
Cluster = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="name of the Pulsar cluster")]
Broker = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="broker id, host:port of its web service")]
Bundle = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="bundle, tenant/namespace/0xLLLLLLLL_0xUUUUUUUU")]
Text = Annotated[str, Meta(description="a sentence for people")]
Milliseconds = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER, description="ms since the epoch")]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Duration = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER, description="ms")]
Figure = Annotated[float, Meta(ge=0, le=LARGEST_FIGURE)]
MsgRate = Annotated[float, Meta(ge=0, le=LARGEST_FIGURE, description="messages/s")]
Throughput = Annotated[float, Meta(ge=0, le=LARGEST_FIGURE, description="bytes/s")]
#: Not negative, except that Pulsar's initial value is exactly -1 for both usage and limit.
ResourceFigure = Annotated[
    float, Meta(ge=-1, le=LARGEST_FIGURE, description="not negative, or -1 for usage and limit alike: not measured yet")
]
Fraction = Annotated[float, Meta(description="fraction of what is possible, 1.0 = 100 %")]
Scalar = str | int | float | bool | None
