"""Label selectors in the two forms that Kubernetes has. In: the text that its API takes. Out: the form of manifests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.errors import ConfigError

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_EQUAL = re.compile(rf"({_KEY})\s*==?\s*({_VALUE})?")
_UNEQUAL = re.compile(rf"({_KEY})\s*!=\s*({_VALUE})?")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_BETWEEN_TERMS = re.compile(r",(?![^(]*\))")


def label_selector(text: str, where: str) -> Mapping[str, Any]:
    """`app=vllm,tier in (a, b)` as `matchLabels` and `matchExpressions`; of an empty text an empty selector (all).

    `where` begins the message of the ConfigError that is raised for what Kubernetes would not understand.
    """
    labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for term in filter(None, (part.strip() for part in _BETWEEN_TERMS.split(text))):
        if match := _SET.fullmatch(term):
            values = [value.strip() for value in match[3].split(",")]
            operator = "In" if match[2] == "in" else "NotIn"
            expressions.append({"key": match[1], "operator": operator, "values": values})
        elif match := _UNEQUAL.fullmatch(term):
            expressions.append({"key": match[1], "operator": "NotIn", "values": [match[2] or ""]})
        elif match := _EQUAL.fullmatch(term):
            # A second value of one label would replace the first, where Kubernetes finds no pod at all.
            if labels.setdefault(match[1], match[2] or "") != (match[2] or ""):
                raise ConfigError(f"{where}: {match[1]} cannot have two values at once")
        elif match := _EXISTS.fullmatch(term):
            expressions.append({"key": match[2], "operator": "DoesNotExist" if match[1] else "Exists"})
        else:
            raise ConfigError(f"{where}: {term!r} is no term of a label selector, such as app=vllm")
    selector: dict[str, Any] = {}
    if labels:
        selector["matchLabels"] = labels
    if expressions:
        selector["matchExpressions"] = expressions
    return selector
