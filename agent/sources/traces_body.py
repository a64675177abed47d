"""The body of a request, whole and bounded. In: a request's stream. Out: its bytes as sent, and decompressed.

A sender may claim any length, send for ever, or send a few bytes that unpack to gigabytes: each ends at a limit.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Protocol

ENCODINGS = ("", "identity", "gzip", "deflate")
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class Stream(Protocol):
    """What aiohttp gives as `request.content`."""

    async def readany(self) -> bytes:
        """The next bytes, empty at the end."""


class BodyRefused(Exception):
    """With the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class BodyReader:
    """Reads bodies of `most_bytes` at most, and at most `most_held_bytes` of all that are on their way together."""

    def __init__(self, most_bytes: int, most_held_bytes: int, timeout_seconds: float) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._most_held_bytes = most_held_bytes
        self._timeout_seconds = timeout_seconds

    async def read(self, stream: Stream, claimed_bytes: int | None) -> bytes:
        """Raises BodyRefused: 413 too large, 408 too slow, 429 too much at once."""
        if claimed_bytes is not None and claimed_bytes > self.most_bytes:
            raise self._too_large("is")
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                while chunk := await stream.readany():
                    body += chunk
                    self.held_bytes += len(chunk)
                    if len(body) > self.most_bytes:
                        raise self._too_large("is")
                    if self.held_bytes > self._most_held_bytes:
                        raise BodyRefused(429, "too many bodies are on their way at once; send again later")
        except TimeoutError:
            raise BodyRefused(408, f"the body was not complete within {self._timeout_seconds:g} s") from None
        finally:
            self.held_bytes -= len(body)
        return bytes(body)

    def decompressed(self, body: bytes, encoding: str) -> bytes:
        """Raises BodyRefused: 413 unpacks to too much, 400 is no such data."""
        if encoding in ("", "identity"):
            return body
        unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            data = unpacker.decompress(body, self.most_bytes + 1)
        except zlib.error:
            raise BodyRefused(400, f"the body is not {encoding} data") from None
        if len(data) > self.most_bytes:
            raise self._too_large("unpacks to")
        if not unpacker.eof or unpacker.unused_data:
            raise BodyRefused(400, f"the body is not one whole {encoding} stream")
        return data

    def _too_large(self, how: str) -> BodyRefused:
        return BodyRefused(413, f"the body {how} more than {self.most_bytes} bytes; send smaller batches")
