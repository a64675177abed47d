"""Which records have a trace id or a request id. In: ids with records. Out: the records like a given leg, few at most.

One id can be on everything (a client that sends a constant request id, servers started under one TRACEPARENT). Only
the newest records of an id are found then, so that one leg never costs more than a fixed amount of work.
"""

from __future__ import annotations

from typing import Generic, TypeVar

R = TypeVar("R")

MOST_OF_ONE_ID = 64


class LegIndex(Generic[R]):
    """Records by trace id and by request id. An empty id finds nothing."""

    def __init__(self) -> None:
        self._traces: dict[str, tuple[R, ...]] = {}
        self._requests: dict[str, tuple[R, ...]] = {}

    def add(self, trace: str, request: str, record: R) -> None:
        """Once per id, however often it is added."""
        for ids, key in ((self._traces, trace), (self._requests, request)):
            known = ids.get(key, ())
            if key and record not in known:
                ids[key] = (*known[-(MOST_OF_ONE_ID - 1) :], record)

    def remove(self, trace: str, request: str, record: R) -> None:
        """Forgets the record under both ids; one that is not there is no error."""
        for ids, key in ((self._traces, trace), (self._requests, request)):
            left = tuple(each for each in ids.get(key, ()) if each is not record)
            if left:
                ids[key] = left
            else:
                ids.pop(key, None)

    def like(self, trace: str, request: str) -> list[R]:
        """Every record that has the trace id or the request id, each once."""
        by_trace = self._traces.get(trace, ())
        return [*by_trace, *(record for record in self._requests.get(request, ()) if record not in by_trace)]

    def __len__(self) -> int:
        return len(self._traces) + len(self._requests)
