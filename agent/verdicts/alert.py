"""One alert: what a person is called for. In: labels and texts. Out: a value whose identity nothing volatile enters.

The identity is the label set alone, so that two replicas, and one pdwatch before and after a restart, speak of the
same incident. Numbers, times and causes are annotations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from agent.errors import StateError


@dataclass(frozen=True, slots=True)
class Alert:
    """An incident as it is told to others. Times in unix seconds; `ends_at` None: it still goes on."""

    labels: Mapping[str, str]
    starts_at: float
    annotations: Mapping[str, str]
    ends_at: float | None = None

    @property
    def name(self) -> str:
        """The alert's name, `PDWatch...`."""
        return self.labels["alertname"]

    @property
    def severity(self) -> str:
        return self.labels["severity"]

    @property
    def identity(self) -> str:
        """32 hex digits, the same wherever the labels are the same."""
        return identity_of(self.labels)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return {
            "labels": dict(self.labels),
            "starts_at": self.starts_at,
            "annotations": dict(self.annotations),
            "ends_at": self.ends_at,
        }

    @classmethod
    def from_json(cls, saved: object) -> Alert:
        """Raises StateError where the data are of another form."""
        if not isinstance(saved, Mapping):
            raise StateError("a saved alert is no mapping; alerts start anew")
        labels, starts_at, ends_at = saved.get("labels"), saved.get("starts_at"), saved.get("ends_at")
        if not isinstance(labels, Mapping) or not {"alertname", "severity"} <= labels.keys() or not is_time(starts_at):
            raise StateError("a saved alert lacks its labels or its begin; alerts start anew")
        if ends_at is not None and not is_time(ends_at):
            raise StateError("a saved alert has an end that is no time; alerts start anew")
        annotations = saved.get("annotations")
        texts = annotations if isinstance(annotations, Mapping) else {}
        return cls(
            {str(name): str(value) for name, value in labels.items()},
            float(starts_at),
            {str(name): str(value) for name, value in texts.items()},
            None if ends_at is None else float(ends_at),
        )


def identity_of(labels: Mapping[str, str]) -> str:
    """A hash of the sorted labels; an empty value is as good as none, as Alertmanager has it."""
    text = "\0".join(f"{name}\0{value}" for name, value in sorted(labels.items()) if value)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def is_time(value: object) -> TypeGuard[float]:
    """A finite number (of seconds)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
