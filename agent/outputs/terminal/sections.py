"""What is said above and below the engines. In: the document. Out: lines: verdicts, pools, memory, problems."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from agent.outputs.terminal import words
from agent.outputs.terminal.document import Part
from agent.outputs.terminal.layout import ALWAYS, Cell, Column, table, wrapped

VERDICT_STYLES = {
    "breached": "bold red",
    "undecided": "yellow",
    "insufficient_data": "yellow",
    "no_data": "yellow",
    "met": "green",
    "not_applicable": "dim",
}
"""In order of urgency."""
SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}
TREND_STYLES = {"leaking": "bold red", "growing": "yellow", "unknown": "dim"}


def verdict_lines(document: Part, width: int, most_lines: int | None) -> list[Text]:
    """Broken promises first, each with its cause. `most_lines`: of each sentence."""
    now = document.number("at")
    lines: list[Text] = []
    for verdict in sorted(
        document.each("verdicts"), key=lambda verdict: _rank(VERDICT_STYLES, verdict.text("verdict"))
    ):
        word = verdict.text("verdict") or "unknown"
        said = word.replace("_", " ")
        line = Text(end="").append(said.upper() if word == "breached" else said, VERDICT_STYLES.get(word, ""))
        if verdict.text("status") not in ("", "ok"):
            line.append(f" {verdict.text('status')}", "bold")
        since = verdict.number("since")
        if word == "breached" and now is not None and since is not None:
            line.append(f" for {words.age(now - since)}")
        line.append(f": {_sentence(verdict)}", "")
        lines += wrapped(line, width, 2, most_lines)
        cause = verdict.text("cause", "text") or verdict.text("cause", "code")
        if cause:
            style = "bold" if word == "breached" else ""
            lines += wrapped(Text(f"cause: {cause}", style, end=""), width, 4, most_lines, begin="  ")
    return lines or [Text("no verdict", "dim", end="")]


def _sentence(verdict: Part) -> str:
    name = f"{verdict.text('objective')} {verdict.text('scope')}".strip()
    if verdict.text("text"):
        return verdict.text("text")
    value, low, high = (verdict.number(key) for key in ("value", "low", "high"))
    bounds = f" ({words.digits(low)} to {words.digits(high)})" if low is not None and high is not None else ""
    return f"{name}: {words.digits(value)}{bounds}, target {words.digits(verdict.number('target'))}"


_POOLS = (
    Column("POOL", ALWAYS),
    Column("UP", 8),
    Column("RUN", 7),
    Column("WAIT", 7),
    Column("KV", 6),
    Column("ACCEPT", 5),
    Column("TTFT", 9),
    Column("P95 WITHIN", 8),
    Column("TPOT", 9),
    Column("P95 WITHIN", 8),
    Column("REQ/S", 4),
    Column("TOK/S", 3),
    Column("ERRORS", 2),
)


def pool_lines(document: Part, width: int) -> list[Text]:
    """One line for what users get, and one for each pool."""
    system = document.part("system")
    rows: list[list[Cell]] = []
    if system.is_known:
        rows.append(
            [
                Cell("users", "bold"),
                *[Cell("")] * 5,
                Cell(words.seconds(system.number("ttft", "mean")), "bold"),
                Cell(_p95(system.part("ttft"))),
                *[Cell("")] * 2,
                Cell(words.digits(system.number("requests_per_s"))),
                *[Cell("")] * 2,
            ]
        )
    rows += [_pool_row(name, pool) for name, pool in document.items("pools")]
    return table(_POOLS, rows, width) if rows else []


def _pool_row(name: str, pool: Part) -> list[Cell]:
    targets = [target for _, target in pool.items("targets")]
    up = sum(target.says("up") is True for target in targets)
    load, ttft, tpot = pool.part("load"), pool.part("latency", "ttft"), pool.part("latency", "tpot")
    waiting = load.number("waiting")
    errors = pool.number("outcomes", "error")
    return [
        Cell(name, "bold"),
        Cell(f"{up}/{len(targets)}", "" if up == len(targets) else "bold red"),
        Cell(words.count(load.number("running"))),
        Cell(words.count(waiting), "yellow" if waiting else ""),
        Cell(words.share(load.number("kv_usage_max"))),
        Cell(words.digits(pool.number("speculation", "acceptance_length"))),
        Cell(words.seconds(ttft.number("mean")), "bold"),
        Cell(_p95(ttft)),
        Cell(words.seconds(tpot.number("mean")), "bold"),
        Cell(_p95(tpot)),
        Cell(words.digits(pool.number("throughput", "requests_per_s"))),
        Cell(words.digits(pool.number("throughput", "generation_tokens_per_s"))),
        Cell(words.count(errors), "bold red" if errors else ""),
    ]


def _p95(dist: Part) -> str:
    found = dist.part("quantiles", "0.95")
    low, high = found.number("low"), found.number("high")
    if low is None:
        return words.UNKNOWN
    return words.between(words.seconds(low), None if high is None else words.seconds(high))


_MEMORY = (
    Column("PROCESS", ALWAYS),
    Column("TARGET", 4, left=True),
    Column("ANON", 6),
    Column("PER HOUR", 8),
    Column("WITHIN", 3),
    Column("TO LIMIT", 7),
    Column("TREND", 9, left=True),
)


def memory_lines(document: Part, width: int, first: int = 0, most: int | None = None) -> list[Text]:
    """Processes with what their memory does, those that grow first. Nothing without processes."""
    processes = sorted(document.each("memory"), key=_memory_rank)
    shown = processes[first:] if most is None else processes[first : first + most]
    return table(_MEMORY, [_memory_row(process) for process in shown], width) if processes else []


def _memory_rank(process: Part) -> tuple[int, int, float, float]:
    trends = ("leaking", "growing", "warming", "unknown", "steady")
    trend = process.text("trend")
    hours, size = process.number("hours_to_limit", "value"), process.number("anon_bytes")
    return (
        _rank(SEVERITY_STYLES, process.text("severity")),
        trends.index(trend) if trend in trends else len(trends),
        float("inf") if hours is None else hours,
        -(size or 0.0),
    )


def _memory_row(process: Part) -> list[Cell]:
    trend, slope, left = process.text("trend"), process.part("slope_bytes_per_hour"), process.part("hours_to_limit")
    low, high = slope.number("low"), slope.number("high")
    soonest, latest = left.number("low"), left.number("high")
    within = "" if low is None or high is None else words.between(_signed(low), _signed(high), " to ")
    if soonest is None:
        to_limit = words.UNKNOWN if left.number("value") is None else words.age(3600 * (left.number("value") or 0.0))
    else:
        to_limit = words.between(words.age(3600 * soonest), None if latest is None else words.age(3600 * latest))
    style = SEVERITY_STYLES.get(process.text("severity")) or TREND_STYLES.get(trend, "")
    return [
        Cell(process.text("title") or "?", style),
        Cell(process.text("target")),
        Cell(words.size(process.number("anon_bytes"))),
        Cell(_signed(slope.number("value")), style),
        Cell(within),
        Cell(to_limit, style),
        Cell(trend or words.UNKNOWN, style),
    ]


def _signed(size: float | None) -> str:
    if size is None:
        return words.UNKNOWN
    return f"+{words.size(size)}" if size > 0 else words.size(size)


def problems_of(document: Part) -> list[Part]:
    """The gravest first, and of those the newest."""
    return sorted(
        document.each("problems"),
        key=lambda problem: (_rank(SEVERITY_STYLES, problem.text("severity")), -(problem.number("since") or 0.0)),
    )


def problem_lines(document: Part, width: int, most_lines: int | None) -> list[list[Text]]:
    """Each problem's lines. `most_lines`: of each sentence."""
    now = document.number("at")
    found = []
    for problem in problems_of(document):
        severity, since = problem.text("severity"), problem.number("since")
        line = Text(end="").append(severity or "problem", SEVERITY_STYLES.get(severity, ""))
        line.append(f" {problem.text('code')}", "bold")
        if now is not None and since is not None and now - since >= 1:
            line.append(f" {words.age(now - since)}", "dim")
        line.append(f": {problem.text('text')}", "")
        found.append(wrapped(line, width, 2, most_lines))
    return found


def problem_counts(document: Part) -> Sequence[tuple[str, int]]:
    """Severity and how many, the gravest first."""
    severities = [problem.text("severity") or "unknown" for problem in document.each("problems")]
    return [(word, severities.count(word)) for word in (*SEVERITY_STYLES, "unknown") if word in severities]


def _rank(styles: dict[str, str], word: str) -> int:
    known = list(styles)
    return known.index(word) if word in known else len(known)
