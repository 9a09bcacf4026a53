"""Bodies of answers: each document is encoded and compressed once, for all viewers."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

_SMALL = 1_000
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's bytes, plain and compressed. `tag`: changes when they do."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str

    def answer(self, request: Request, cache: str = "private, no-cache") -> Response:
        """The response; without a body if the viewer has it already."""
        headers = {"ETag": self.tag, "Cache-Control": cache, "Vary": "Accept-Encoding, Cookie"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.packed and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed, media_type=self.kind, headers=headers)
        return Response(self.plain, media_type=self.kind, headers=headers)


def body_of(kind: str, plain: bytes) -> Body:
    """The body with these bytes."""
    packed = gzip.compress(plain, 5, mtime=0) if len(plain) > _SMALL else b""
    return Body(kind, plain, packed, f'"{hashlib.sha256(plain).hexdigest()[:20]}"')


def json_body(document: dict[str, Any]) -> Body:
    """The document as JSON; figures that are no numbers become null."""
    return body_of("application/json", orjson.dumps(document))


def assets() -> dict[str, Body]:
    """The files of the page by name."""
    folder = files("pulsar_rebalancer.serve.assets")
    return {
        file.name: body_of(_TYPES[suffix], file.read_bytes())
        for file in folder.iterdir()
        if (suffix := file.name[file.name.rfind(".") :]) in _TYPES
    }
