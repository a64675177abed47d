"""vLLM's own words for a request's span. In: a decoded span of any encoding. Out: `Span`, or None when it is unusable.

Attributes of the wrong type are as good as missing: not known. docs/traces.md lists the names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.model import Span

SPAN_NAME = "llm_request"
REQUEST_ID = "gen_ai.request.id"
PROMPT_TOKENS = "gen_ai.usage.prompt_tokens"
COMPLETION_TOKENS = "gen_ai.usage.completion_tokens"
TTFT = "gen_ai.latency.time_to_first_token"
E2E = "gen_ai.latency.e2e"
QUEUE = "gen_ai.latency.time_in_queue"
PREFILL = "gen_ai.latency.time_in_model_prefill"
DECODE = "gen_ai.latency.time_in_model_decode"
WANTED = frozenset({REQUEST_ID, PROMPT_TOKENS, COMPLETION_TOKENS, TTFT, E2E, QUEUE, PREFILL, DECODE})

LONGEST_ID = 128
BATCH_SPANS = 256
"""Spans that are looked at in one go, between two turns of the event loop."""

Value = str | int | float
Attributes = Mapping[str, Value]


@dataclass(slots=True)
class Batch:
    """Spans of one resource. `others`: spans that are no requests, `malformed`: requests that cannot be used."""

    resource: Attributes
    spans: list[Span] = field(default_factory=list)
    others: int = 0
    malformed: int = 0

    @property
    def looked_at(self) -> int:
        return len(self.spans) + self.others + self.malformed


class UndecodableBody(Exception):
    """The body is not what its content type says."""


def span_of(trace: str, start_ns: int, end_ns: int, attributes: Attributes) -> Span | None:
    """`trace` in hex. None without times: then nothing can be said about it."""
    if start_ns <= 0 or end_ns <= 0:
        return None
    return Span(
        trace=trace,
        request=_identity(attributes.get(REQUEST_ID)),
        start=start_ns / 1e9,
        end=end_ns / 1e9,
        prompt_tokens=_count(attributes.get(PROMPT_TOKENS)),
        completion_tokens=_count(attributes.get(COMPLETION_TOKENS)),
        ttft_seconds=_number(attributes.get(TTFT)),
        e2e_seconds=_number(attributes.get(E2E)),
        queue_seconds=_number(attributes.get(QUEUE)),
        prefill_seconds=_number(attributes.get(PREFILL)),
        decode_seconds=_number(attributes.get(DECODE)),
    )


def without_surrogates(text: str) -> str:
    """JSON can hold half characters, which nothing can write out again."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _identity(value: Value | None) -> str:
    if not isinstance(value, str):
        return ""
    value = without_surrogates(value)
    if len(value) <= LONGEST_ID:
        return value
    # Many are kept while they wait for their other leg: a long one is told by its digest, the same on both legs.
    digest = hashlib.blake2b(value.encode("utf-8"), digest_size=16).hexdigest()
    return f"{value[:64]}~{digest}"


def _number(value: Value | None) -> float | None:
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: Value | None) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None
