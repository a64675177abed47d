"""Pieces of PromQL. In: names, labels, numbers. Out: text that Prometheus 2.42 and later reads, without float dust."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from agent.burn import decimal_text, span_text


def matchers(**labels: str | Iterable[str] | None) -> str:
    """`a="x",b=~"y|z"` of labels with one value or several; None leaves a label out."""
    return ",".join(matcher(name, value) for name, value in labels.items() if value is not None)


def matcher(name: str, value: str | Iterable[str]) -> str:
    """One matcher: equality for one value, an alternative of literal values for several."""
    values = [value] if isinstance(value, str) else list(value)
    if len(values) == 1:
        return f'{name}="{_quoted(values[0])}"'
    return f'{name}=~"{"|".join(_quoted(_literal(one)) for one in values)}"'


def le_matcher(edge: Decimal) -> str:
    """The bucket of one edge: Python's client library prints `1.0`, other exporters and Prometheus 2 keep `1`."""
    text = decimal_text(edge)
    if edge == edge.to_integral_value():
        return f'le=~"{text}|{text}[.]0"'
    return f'le="{text}"'


def number(value: float | Decimal) -> str:
    """A number as it was written down: 0.02, 14.4, 30."""
    return decimal_text(value if isinstance(value, Decimal) else Decimal(str(value)))


def span(seconds: float) -> str:
    """A time as rules write it: 90s, 5m, 1h; below a second in milliseconds."""
    return span_text(seconds) if seconds >= 1 else f"{round(seconds * 1000)}ms"


def least(first: str, second: str) -> str:
    """The smaller of two values that have the same labels."""
    return f"(({first}) < ({second}) or ({second}))"


def largest(first: str, second: str) -> str:
    """The larger of two values that have the same labels."""
    return f"(({first}) > ({second}) or ({second}))"


def any_of(*expressions: str) -> str:
    """Conditions of which one is enough, a line each."""
    return expressions[0] if len(expressions) == 1 else "\nor\n".join(f"({one})" for one in expressions)


def all_of(first: str, *others: str, on: Iterable[str] = ()) -> str:
    """A value that passes if all the others have something for its labels `on`; none means that there is one at all."""
    labels = ", ".join(on)
    return f"({first})" + "".join(f"\nand on ({labels}) ({other})" for other in others)


def unless(first: str, *others: str, on: Iterable[str] = ()) -> str:
    """A value that passes if none of the others has something for its labels `on`."""
    labels = ", ".join(on)
    return f"({first})" + "".join(f"\nunless on ({labels}) ({other})" for other in others)


def _literal(text: str) -> str:
    """A value inside a regular expression; a class of one character needs no backslash, and so no double quoting."""
    return "".join(f"[{character}]" if character in ".+*?()|{}$" else character for character in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
