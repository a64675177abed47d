"""What a client does wrong is one line of log and no traceback."""

from __future__ import annotations

import logging
import sys

from aiohttp.http_exceptions import LineTooLong

from agent.outputs.refused_requests import EVERY_SECONDS, OneLine


def record_of(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except (LineTooLong, ValueError):
        return logging.LogRecord(
            "x", logging.ERROR, "", 1, "Error handling request from %s", ("1.2.3.4",), sys.exc_info()
        )


def test_a_line_that_is_too_long_is_one_warning_without_a_traceback() -> None:
    record = record_of(LineTooLong(b"/" + b"a" * 100, 8190))
    assert OneLine(lambda: 0.0).filter(record)
    text = logging.Formatter().format(record)
    assert text.startswith("Error handling request from 1.2.3.4: refused, LineTooLong: Got more than 8190 bytes")
    assert "\n" not in text
    assert record.levelno == logging.WARNING


def test_a_flood_is_one_line_a_minute_which_counts_the_others() -> None:
    now = [0.0]
    lines = OneLine(lambda: now[0])
    shown = [lines.filter(record_of(LineTooLong(b"/", 8190))) for _ in range(50)]
    assert shown == [True] + [False] * 49
    now[0] = EVERY_SECONDS
    record = record_of(LineTooLong(b"/", 8190))
    assert lines.filter(record)
    assert "(49 more since the last such line)" in record.getMessage()


def test_a_defect_of_pdwatch_keeps_its_traceback() -> None:
    record = record_of(ValueError("ours"))
    assert OneLine(lambda: 0.0).filter(record)
    assert record.exc_info is not None
