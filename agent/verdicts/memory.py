"""Verdicts on memory: what the memory watch says comes in, problems with where, how fast and what to do go out.

A page must be true and early enough to drain and restart on purpose: the text names the process, the rate with its
interval, when the limit is reached at the earliest, what the growth follows, which siblings grow too, and what it looks
like. `growing` and a leak that is far from its limit are warnings; whether a page is sent follows from severity alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.indicators.memory.watch import Growth
from agent.model import Problem, Role
from agent.verdicts.known_leaks import looks_like
from agent.verdicts.wording import duration, plural, size

UNIT_WORDS = {"step": "scheduler step", "request": "request", "token": "token", "hour": "hour"}


def memory_problems(
    growths: Sequence[Growth], roles: Mapping[str, Role], page_within_hours: float, now: float
) -> list[Problem]:
    """Growing and leaking processes, and those about to be killed."""
    found: list[Problem] = []
    for growth in growths:
        found.extend(_imminent(growth, now))
        if growth.reading.trend in ("growing", "leaking"):
            found.append(_growing(growth, growths, roles, page_within_hours, now))
    return found


def _imminent(growth: Growth, now: float) -> Iterable[Problem]:
    imminent = growth.imminent
    if imminent is None:
        return
    left = (
        f"about {duration(imminent.hours_left * 3600)} are left" if imminent.hours_left is not None else "no time left"
    )
    text = (
        f"{growth.sample.title} of {growth.place.target} is about to be killed for memory: "
        f"{imminent.reason}; {left}. Drain it now"
    )
    evidence = {"hours_left": imminent.hours_left, "bytes_per_hour": imminent.slope * 3600}
    yield _problem("oom_imminent", growth, now, text, "critical", evidence)


def _growing(
    growth: Growth, growths: Sequence[Growth], roles: Mapping[str, Role], page_within_hours: float, now: float
) -> Problem:
    reading, sample, place = growth.reading, growth.sample, growth.place
    severity = growth.severity(page_within_hours) or "warning"
    slope = reading.slope_bytes_per_hour
    rate = slope.value if slope is not None else None
    sentences = [f"{sample.title} of {place.target} {_verb(reading.trend)}: {_rate(growth)}, {reading.reason}"]
    sentences.append(_when(growth))
    if growth.confirmed is False:
        sentences.append("the container's anonymous memory did not grow with it, so this does not page")
    sentences.extend(_follows(growth))
    sentences.append(_siblings(growth, growths, roles))
    sentences.append(growth.closer_look)
    sentences.append(_registered(growth))
    if rate is not None:
        unit = growth.followed.best if growth.followed is not None else None
        leak = looks_like(sample.kind, roles.get(place.target), unit, rate)
        if leak is not None and reading.trend == "leaking":
            sentences.append(f"looks like {leak.name} ({leak.reference}): {leak.remedy}")
    if reading.trend == "leaking":
        sentences.append(_what_to_do(growth))
    evidence: dict[str, float | str | None] = {
        "bytes_per_hour": rate,
        "hours_to_limit_low": reading.hours_to_limit.low if reading.hours_to_limit is not None else None,
        "growth_bytes": reading.growth_bytes,
        "window_seconds": reading.window_seconds,
        "pid": sample.pid,
    }
    if growth.followed is not None:
        evidence |= {f"bytes_per_{unit}": value for unit, value in growth.followed.bytes_per.items()}
    code = "memory_leak" if reading.trend == "leaking" else "memory_growth"
    since = now - (reading.since_seconds or 0.0)
    text = "; ".join(sentence for sentence in sentences if sentence)
    return _problem(code, growth, since, text, severity, evidence)


def _problem(
    code: str, growth: Growth, since: float, text: str, severity: str, evidence: Mapping[str, float | str | None]
) -> Problem:
    return Problem(
        code,
        growth.place.target,
        since,
        text,
        "critical" if severity == "critical" else "warning",
        engine=growth.sample.engine or "",
        process=growth.sample.title,
        evidence=evidence,
    )


def _verb(trend: str) -> str:
    return "leaks memory" if trend == "leaking" else "grows steadily"


def _rate(growth: Growth) -> str:
    slope = growth.reading.slope_bytes_per_hour
    if slope is None or slope.value is None:
        return "at a rate that is not known"
    bounds = f" ({size(slope.low)} to {size(slope.high)})" if slope.low is not None and slope.high is not None else ""
    return f"{size(slope.value)} an hour{bounds}"


def _when(growth: Growth) -> str:
    hours = growth.reading.hours_to_limit
    if hours is None or hours.value is None:
        return "no limit is known"
    earliest = f", at the earliest in {duration(hours.low * 3600)}" if hours.low is not None else ""
    return f"the limit is reached in {duration(hours.value * 3600)}{earliest}"


def _follows(growth: Growth) -> Iterable[str]:
    followed = growth.followed
    if followed is None:
        return
    if followed.best is not None and followed.best in followed.bytes_per:
        yield f"it follows the {UNIT_WORDS[followed.best]}s: {size(followed.bytes_per[followed.best])} each"
    elif followed.bytes_per:
        each = ", ".join(f"{size(value)} a {UNIT_WORDS[unit]}" for unit, value in followed.bytes_per.items())
        yield f"as much as {each}"
    if followed.stops_without_traffic is True:
        yield "it stops when traffic stops"
    elif followed.stops_without_traffic is False:
        yield "it goes on without traffic"


def _registered(growth: Growth) -> str:
    """What NIXL says of memory registered for transfers: whether that can be the leak, or a part of it."""
    if growth.held_bytes is None:
        return ""
    held_bytes, seconds = growth.held_bytes
    within = f"within the last {duration(seconds)}"
    if held_bytes <= 0:
        return f"NIXL gave back all memory that it registered {within}, so its registrations do not leak"
    return f"NIXL registered {size(held_bytes)} more than it gave back {within}, in all of this server"


def _siblings(growth: Growth, growths: Sequence[Growth], roles: Mapping[str, Role]) -> str:
    """Whether processes of the same kind grow too: one rank alone is another fault than all, one pool than both."""
    kin = [other for other in growths if other.sample.kind == growth.sample.kind and other.place != growth.place]
    role = roles.get(growth.place.target)
    here = [other for other in kin if roles.get(other.place.target) == role]
    elsewhere = [other for other in kin if roles.get(other.place.target) != role]
    told = [_grow_too(here, "sibling")] if here else []
    if elsewhere:
        told.append(
            _grow_too(elsewhere, "other", f" of its kind in the {'decode' if role == 'prefill' else 'prefill'} pool")
        )
    return ", ".join(told)


def _grow_too(kin: Sequence[Growth], word: str, where: str = "") -> str:
    if len(kin) == 1:
        grows = kin[0].reading.trend in ("growing", "leaking")
        return f"its 1 {word}{where} {'grows too' if grows else 'does not grow'}"
    same = sum(other.reading.trend in ("growing", "leaking") for other in kin)
    if same == len(kin):
        return f"all {plural(len(kin), word)}{where} grow too"
    if not same:
        return f"none of {plural(len(kin), word)}{where} grows"
    return f"{same} of {plural(len(kin), word)}{where} grow{'s' if same == 1 else ''} too"


def _what_to_do(growth: Growth) -> str:
    hours = growth.reading.hours_to_limit
    earliest = hours.low if hours is not None and hours.low is not None else None
    by_when = f" within {duration(0.8 * earliest * 3600)}" if earliest is not None else " at a quiet hour"
    return f"drain and restart {growth.place.target}{by_when}"
