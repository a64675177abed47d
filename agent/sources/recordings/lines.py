"""One line of a recording. In: an observation, or the JSON value of a line. Out: the other one.

Reading is strict: a value of the wrong type is an error with its name, since a guess would become a wrong number.
Unknown keys are left alone, so that newer recordings stay readable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.model import (
    CgroupSample,
    ClockStepObservation,
    FailureObservation,
    Observation,
    PageObservation,
    ProcessesObservation,
    ProcessKind,
    ProcessSample,
    SourceProblem,
    Span,
    SpansObservation,
)
from agent.sources.titles import Title, engine_of, parse_title

CARRIERS = ("page", "error", "processes", "cgroup", "spans", "clock_step_s")

_HELP_LINE = re.compile(r"\n#[ \t]+HELP[ \t][^\n]*")
"""With the line end before it, which the search finds faster than the beginning of a line."""
_KINDS: tuple[ProcessKind, ...] = ("engine_core", "worker", "api_server", "coordinator", "launcher", "other")

_PROCESS_COUNTS = (
    "rss_bytes", "anon_bytes", "swap_bytes", "file_bytes", "shmem_bytes", "hugetlb_bytes", "pss_bytes",
    "threads", "fds", "cache_budget_bytes",
)  # fmt: skip
_CGROUP_COUNTS = (
    "limit_bytes", "current_bytes", "anon_bytes", "file_bytes", "shmem_bytes", "kernel_bytes", "oom_kills",
    "host_available_bytes",
)  # fmt: skip
_SPAN_SECONDS = ("ttft", "e2e", "queue", "prefill", "decode")


def without_help(page: str) -> str:
    """The page without its HELP lines, which say nothing that the catalogue does not. A page cut off stays cut off."""
    return _HELP_LINE.sub("", "\n" + page).removeprefix("\n") if "HELP" in page else page


# -- writing ---------------------------------------------------------------------------------------------------


def encode(observation: Observation) -> dict[str, Any]:
    """The JSON value of one line. What is not known and not named by the form is left out."""
    match observation:
        case PageObservation():
            line = {"t": observation.t, "target": observation.target, "page": without_help(observation.page)}
            if observation.took_seconds is not None:
                line["took_s"] = round(observation.took_seconds, 6)
            if observation.content_type and not observation.content_type.startswith("text/plain"):
                line["content_type"] = observation.content_type
            return line
        case FailureObservation():
            text = {"text": observation.text} if observation.text else {}
            return {"t": observation.t, "target": observation.target, "error": observation.error, **text}
        case ProcessesObservation():
            return _encode_processes(observation)
        case SpansObservation():
            spans = [_encode_span(span) for span in observation.spans]
            return {"t": observation.t, "target": observation.target, "spans": spans}
        case ClockStepObservation():
            return {"t": observation.t, "target": "", "clock_step_s": observation.step_seconds}


def _encode_processes(observation: ProcessesObservation) -> dict[str, Any]:
    line: dict[str, Any] = {"t": observation.t, "target": observation.target}
    line["processes"] = [_encode_process(process) for process in observation.processes]
    if observation.cgroup is not None:
        always = ("limit_bytes", "anon_bytes", "file_bytes", "shmem_bytes")
        line["cgroup"] = _known(observation.cgroup, _CGROUP_COUNTS, always)
        if observation.cgroup.over_estimate:
            line["cgroup"]["over_estimate"] = True
    if observation.problems:
        line["problems"] = [
            {"code": problem.code, "target": problem.target, "text": problem.text, "pid": problem.pid}
            for problem in observation.problems
        ]
    return line


def _encode_process(process: ProcessSample) -> dict[str, Any]:
    always = ("rss_bytes", "anon_bytes", "swap_bytes", "file_bytes", "shmem_bytes", "pss_bytes")
    return {
        "pid": process.pid,
        "started": process.started_seconds,
        "parent": process.parent_pid,
        "title": process.title,
        "kind": process.kind,
        "engine": process.engine,
        **_known(process, _PROCESS_COUNTS, always),
    }


def _encode_span(span: Span) -> dict[str, Any]:
    return {
        "trace": span.trace,
        "request": span.request,
        "start": span.start,
        "end": span.end,
        "prompt_tokens": span.prompt_tokens,
        "completion_tokens": span.completion_tokens,
        **{f"{name}_s": getattr(span, f"{name}_seconds") for name in _SPAN_SECONDS},
    }


def _known(sample: ProcessSample | CgroupSample, names: tuple[str, ...], always: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(sample, name) for name in names}
    return {name: value for name, value in values.items() if value is not None or name in always}


# -- reading ---------------------------------------------------------------------------------------------------


def decode(line: object) -> Iterator[Observation]:
    """The observations of one line's JSON value. Raises ValueError that names the key and what is wrong with it."""
    fields = _mapping(line, "the line")
    t = _number(fields, "t")
    carried = [name for name in CARRIERS if name in fields]
    if not carried:
        raise ValueError("holds none of " + ", ".join(CARRIERS))
    if "clock_step_s" in fields:
        yield ClockStepObservation(t, _number(fields, "clock_step_s"))
    if len(carried) == 1 and carried[0] == "clock_step_s":
        return
    target = _text(fields, "target")
    if not target:
        raise ValueError("'target' is empty")
    if "page" in fields:
        took = _number_or_none(fields, "took_s")
        yield PageObservation(t, target, _text(fields, "page"), took, _text(fields, "content_type", ""))
    if "error" in fields:
        yield FailureObservation(t, target, _text(fields, "error"), _text(fields, "text", ""))
    if "processes" in fields or "cgroup" in fields:
        yield _decode_processes(t, target, fields)
    if "spans" in fields:
        yield SpansObservation(t, target, tuple(_decode_span(item) for item in _list(fields, "spans")))


def _decode_processes(t: float, target: str, fields: Mapping[str, Any]) -> ProcessesObservation:
    rows = [_mapping(item, "a process") for item in _list(fields, "processes", ())]
    titles = {_integer(row, "pid"): _title(row) for row in rows}
    parents = {_integer(row, "pid"): _integer_or_none(row, "parent") for row in rows}
    processes = tuple(_decode_process(row, titles, parents) for row in rows)
    cgroup = None if fields.get("cgroup") is None else _decode_cgroup(_mapping(fields["cgroup"], "'cgroup'"))
    problems = tuple(
        SourceProblem(
            _text(row, "code"), _text(row, "target", target), _text(row, "text", ""), _integer_or_none(row, "pid")
        )
        for row in (_mapping(item, "a problem") for item in _list(fields, "problems", ()))
    )
    return ProcessesObservation(t, target, processes, cgroup, problems)


def _decode_process(
    row: Mapping[str, Any], titles: Mapping[int, Title], parents: Mapping[int, int | None]
) -> ProcessSample:
    pid = _integer(row, "pid")
    kind: ProcessKind = titles[pid].kind
    engine = engine_of(titles[pid], _titles_above(pid, titles, parents))
    # A recording of ours names both; another's leaves them to be told from titles and parents, as on a live host.
    if row.get("kind") is not None:
        named = _text(row, "kind")
        kind = next((known for known in _KINDS if known == named), "other")
        engine = _text(row, "engine") if row.get("engine") is not None else None
    counts = {name: _integer_or_none(row, name) for name in _PROCESS_COUNTS}
    return ProcessSample(
        pid=pid,
        title=_text(row, "title"),
        started_seconds=_number_or_none(row, "started"),
        parent_pid=_integer_or_none(row, "parent"),
        kind=kind,
        engine=engine,
        **counts,
    )


def _title(row: Mapping[str, Any]) -> Title:
    title = _text(row, "title")
    # A title is one word, `vllm serve` two: both are what a command line begins with.
    return parse_title(title.split(), title)


def _titles_above(pid: int, titles: Mapping[int, Title], parents: Mapping[int, int | None]) -> list[Title]:
    above: list[Title] = []
    parent = parents[pid]
    while parent is not None and parent in titles and len(above) < len(titles):
        above.append(titles[parent])
        parent = parents[parent]
    return above


def _decode_cgroup(row: Mapping[str, Any]) -> CgroupSample:
    counts = {name: _integer_or_none(row, name) for name in _CGROUP_COUNTS}
    return CgroupSample(over_estimate=row.get("over_estimate") is True, **counts)


def _decode_span(item: object) -> Span:
    row = _mapping(item, "a span")
    seconds = {f"{name}_seconds": _number_or_none(row, f"{name}_s") for name in _SPAN_SECONDS}
    return Span(
        trace=_text(row, "trace"),
        request=_text(row, "request"),
        start=_number(row, "start"),
        end=_number(row, "end"),
        prompt_tokens=_integer_or_none(row, "prompt_tokens"),
        completion_tokens=_integer_or_none(row, "completion_tokens"),
        **seconds,
    )


# -- types of JSON ---------------------------------------------------------------------------------------------


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no JSON object")
    return value


def _list(fields: Mapping[str, Any], name: str, default: Any = None) -> Any:
    value = fields.get(name, default)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"'{name}' is no list")
    return value


def _text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"'{name}' is missing" if value is None else f"'{name}' is no text")
    return value


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = _number_or_none(fields, name)
    if value is None:
        raise ValueError(f"'{name}' is missing")
    return value


def _number_or_none(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:  # JSON's whole numbers may have any length
        pass
    raise ValueError(f"'{name}' is no finite number")


def _integer(fields: Mapping[str, Any], name: str) -> int:
    value = _integer_or_none(fields, name)
    if value is None:
        raise ValueError(f"'{name}' is missing")
    return value


def _integer_or_none(fields: Mapping[str, Any], name: str) -> int | None:
    value = _number_or_none(fields, name)
    if value is None:
        return None
    if value != int(value):
        raise ValueError(f"'{name}' is no whole number")
    return int(fields[name])
