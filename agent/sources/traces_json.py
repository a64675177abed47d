"""OTLP bodies in JSON. In: bytes. Out: batches of spans, and the answers in the same encoding.

Names are lowerCamelCase, ids are hex, 64-bit integers may be text (OTLP specification, "JSON Protobuf Encoding").
What has the wrong type inside one span makes that span unusable; outside, the whole body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.sources.traces_spans import BATCH_SPANS, SPAN_NAME, Batch, UndecodableBody, Value, span_of

CONTENT_TYPE = "application/json"
LARGEST_BODY_BYTES = 2 << 20
"""JSON grows thirtyfold when it is read, and is read in one go."""

_TRACE = re.compile(r"[0-9a-fA-F]{32}")


def decode(body: bytes) -> Iterator[Batch]:
    """Batches of a few hundred spans. Raises UndecodableBody."""
    if len(body) > LARGEST_BODY_BYTES:
        raise UndecodableBody(f"JSON of more than {LARGEST_BODY_BYTES} bytes is not read; send protobuf, or less")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UndecodableBody(f"the body is no JSON: {str(error)[:60]}") from None
    for group in _objects(_object(document, "the body"), "resourceSpans"):
        resource = _attributes(_object(group.get("resource", {}), "resource"))
        batch = Batch(resource)
        for scope in _objects(group, "scopeSpans"):
            for span in _list(scope, "spans"):
                _look_at(span, batch)
                if batch.looked_at >= BATCH_SPANS:
                    yield batch
                    batch = Batch(resource)
        if batch.looked_at:
            yield batch


def response(rejected: int, message: str) -> bytes:
    """The answer to a body that was taken."""
    partial = {"rejectedSpans": str(rejected), "errorMessage": message}
    return json.dumps({"partialSuccess": partial} if rejected or message else {}).encode()


def refusal(message: str) -> bytes:
    """The answer to a body that was refused."""
    return json.dumps({"message": message}).encode()


def _look_at(row: object, batch: Batch) -> None:
    if not isinstance(row, dict):
        batch.malformed += 1
        return
    if row.get("name") != SPAN_NAME:
        batch.others += 1
        return
    trace = row.get("traceId")
    known = isinstance(trace, str) and _TRACE.fullmatch(trace)
    try:
        start, end = _integer(row.get("startTimeUnixNano")), _integer(row.get("endTimeUnixNano"))
        span = span_of(str(trace).lower() if known else "", start, end, _attributes(row))
    except UndecodableBody:
        span = None
    if span is None:
        batch.malformed += 1
    else:
        batch.spans.append(span)


def _attributes(owner: dict[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in _objects(owner, "attributes"):
        key, value = pair.get("key"), pair.get("value")
        if not isinstance(key, str) or not isinstance(value, dict):
            continue
        text, number, whole = value.get("stringValue"), value.get("doubleValue"), value.get("intValue")
        if isinstance(text, str):
            found[key] = text
        elif isinstance(number, int | float):
            found[key] = number
        elif whole is not None:
            found[key] = _integer(whole)
    return found


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, 2**64)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return int(value)
    raise UndecodableBody("a number is missing, or none")


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UndecodableBody(f"{what} is no JSON object")
    return value


def _objects(owner: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    return (_object(item, f"an item of {name}") for item in _list(owner, name))


def _list(owner: dict[str, Any], name: str) -> list[Any]:
    value = owner.get(name, [])
    if not isinstance(value, list):
        raise UndecodableBody(f"{name} is no list")
    return value
