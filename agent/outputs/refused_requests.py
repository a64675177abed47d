"""Requests that are not HTTP, in the log. In: what the HTTP server logs. Out: one line for what a client did wrong.

A scanner on the network, an address that is far too long or a body that breaks off is no defect of pdwatch: it gets
one line without a traceback, and a flood of them one line a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp.http_exceptions import HttpProcessingError

EVERY_SECONDS = 60.0


def server_logger(steady: Callable[[], float]) -> logging.Logger:
    """The logger for an aiohttp server; `steady` gives monotonic seconds."""
    logger = logging.getLogger("pdwatch.http")
    for earlier in list(logger.filters):
        logger.removeFilter(earlier)
    logger.addFilter(OneLine(steady))
    return logger


class OneLine(logging.Filter):
    """Lets errors of clients through as one line, at most once in `EVERY_SECONDS`; everything else as it is."""

    def __init__(self, steady: Callable[[], float]) -> None:
        super().__init__()
        self._steady = steady
        self._silent_until = float("-inf")
        self._unsaid = 0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError | ConnectionError):
            return True
        if self._steady() < self._silent_until:
            self._unsaid += 1
            return False
        more = f" ({self._unsaid} more since the last such line)" if self._unsaid else ""
        self._silent_until, self._unsaid = self._steady() + EVERY_SECONDS, 0
        said = " ".join(str(error.message if isinstance(error, HttpProcessingError) else error).split())
        record.msg, record.args = f"{record.getMessage()}: refused, {type(error).__name__}: {said[:120]}{more}", ()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        return True
