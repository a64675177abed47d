"""How a check is told. In: a `Report`. Out: text for a person, JSON for a program."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.check.findings import Finding, exit_code
from agent.check.outlook import Outlook
from agent.check.seen import SeenPool, SeenTarget, kv_capacity_tokens
from agent.check.traffic import observation_rate
from agent.check.words import amount, share
from agent.config import Objective, duration_text
from agent.verdicts.wording import plural

WIDTH = 110
SHOWN_PLACES = 4
_HEADS = {"error": "errors", "warning": "warnings", "info": "notes"}
_LABEL = 4


@dataclass(frozen=True, slots=True)
class Report:
    """All of one check. `pools` is empty when nobody was asked."""

    deployment: str | None
    file: str | None
    pools: tuple[SeenPool, ...]
    outlooks: tuple[Outlook, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 clean, 1 warnings, 2 errors."""
        return exit_code(self.findings)


def as_text(report: Report) -> str:
    """The whole report, ending with a line that counts."""
    lines: list[str] = []
    for pool in report.pools:
        lines += [*_pool(pool), ""]
    if report.outlooks:
        lines += [*_objectives(report.outlooks), ""]
    for level, head in _HEADS.items():
        found = [finding for finding in report.findings if finding.level == level]
        if found:
            lines += [head, *(line for finding in found for line in _finding(finding)), ""]
    counts = [plural(sum(f.level == level for f in report.findings), word) for level, word in _COUNTED]
    lines.append(", ".join(counts))
    return "\n".join(lines) + "\n"


_COUNTED = (("error", "error"), ("warning", "warning"), ("info", "note"))


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data; names here are stable, texts are for people."""
    return {
        "type": "check",
        "deployment": report.deployment,
        "file": report.file,
        "exit_code": report.exit_code,
        "findings": [asdict(finding) for finding in report.findings],
        "pools": {
            pool.name: {
                "role": pool.role,
                "requests_per_s": rate.per_second if (rate := observation_rate(pool, None)) else None,
                "targets": {target.name: _target_json(target) for target in pool.targets},
            }
            for pool in report.pools
        },
        "objectives": [_outlook_json(outlook) for outlook in report.outlooks],
    }


def _target_json(target: SeenTarget) -> dict[str, Any]:
    latest = target.latest
    return {
        "version": target.answer.version,
        "models": list(target.models),
        "engines": list(latest.layout.engines) if latest else None,
        "multiprocess": latest.layout.multiprocess if latest else None,
        "page_bytes": latest.page_bytes if latest else None,
        "took_s": target.took_seconds,
        "kv_capacity_tokens": kv_capacity_tokens(latest) if latest else {},
    }


def _outlook_json(outlook: Outlook) -> dict[str, Any]:
    objective = outlook.objective
    return {
        "objective": objective.name,
        "scope": objective.scope,
        "indicator": objective.indicator,
        "statistic": objective.statistic,
        "target": objective.target,
        "window_s": objective.window_seconds,
        "min_requests": objective.min_requests,
        "edges": list(outlook.edges) if outlook.edges else None,
        "on_edge": outlook.on_edge,
        "default_edges": outlook.default_edges,
        "requests_per_s": outlook.rate.per_second if outlook.rate else None,
        "requests_in_window": outlook.in_window,
        "precision": asdict(outlook.precision) if outlook.precision else None,
        "precision_at_shorter_interval": asdict(outlook.shorter) if outlook.shorter else None,
    }


def _pool(pool: SeenPool) -> list[str]:
    rate = observation_rate(pool, None)
    said = f", {amount(rate.per_second)} requests/s {rate.basis}" if rate else ""
    rows = [("target", "vLLM", "engines", "page", "fetched in", "KV tokens/engine", "model")]
    for target in pool.targets:
        latest, took = target.latest, target.took_seconds
        if latest is None:
            rows.append((target.name, "no page", "", "", "", "", ""))
            continue
        capacities = sorted(set(kv_capacity_tokens(latest).values()))
        rows.append(
            (
                target.name,
                target.answer.version or "?",
                str(len(latest.layout.engines)),
                f"{latest.page_bytes / 1024:.0f} KiB",
                f"{took * 1000:.0f} ms" if took is not None else "?",
                " to ".join(str(tokens) for tokens in (*capacities[:1], *capacities[1:][-1:])) or "?",
                ", ".join(target.models) or "?",
            )
        )
    return [f"pool {pool.name} ({pool.role}{said})", *_table(rows)]


def _objectives(outlooks: Iterable[Outlook]) -> list[str]:
    rows = [("objective", "promise", "in a window", "decided at the target")]
    for outlook in outlooks:
        held = outlook.in_window
        rows.append(
            (
                outlook.objective.name,
                promise(outlook.objective),
                f"{amount(held)} requests" if held is not None else "not known",
                decided(outlook),
            )
        )
    return ["objectives", *_table(rows)]


def promise(objective: Objective) -> str:
    """An objective in a phrase: `decode p95 tpot <= 20ms over 5m`."""
    sign = ">=" if objective.higher_is_better else "<="
    target = duration_text(objective.target) if objective.unit == "seconds" else f"{objective.target:g}"
    if objective.statistic == "share":
        head = f"{objective.scope} {objective.indicator} {sign} {target} for {objective.objective_ratio or 0:.4g}"
    else:
        head = f"{objective.scope} {objective.statistic} {objective.indicator} {sign} {target}"
    return f"{head} over {duration_text(objective.window_seconds)}"


def decided(outlook: Outlook) -> str:
    """How exactly an objective can be judged, in a phrase."""
    if outlook.objective.statistic == "mean":
        return "exactly (a mean)"
    if outlook.on_edge:
        return "exactly (a bucket ends there)"
    if outlook.precision is not None:
        return f"but for about {share(outlook.precision.undecided_ratio)} of requests"
    return "within bounds" if outlook.edges is not None else "not known"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _finding(finding: Finding) -> list[str]:
    more = len(finding.where) - SHOWN_PLACES
    places = ", ".join(finding.where[:SHOWN_PLACES]) + (f" and {more} more" if more > 0 else "")
    lines = [f"  {finding.code}: {places}" if places else f"  {finding.code}", *_wrapped(finding.text)]
    if finding.help:
        # A flag is pasted: it must not be broken.
        lines += (
            [" " * _LABEL + f"-> {finding.help}"] if finding.help.startswith("--") else _wrapped(f"-> {finding.help}")
        )
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=" " * _LABEL, subsequent_indent=" " * _LABEL, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
