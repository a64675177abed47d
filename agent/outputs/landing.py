"""The page that a person sees at `/`. In: a state. Out: one HTML text that needs nothing else and no script.

What stands on it came from foreign pages and command lines: everything is escaped, without exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from agent import __version__
from agent.outputs import numbers
from agent.outputs.live import Live
from agent.state import Distribution, MemoryState, PoolState, ProblemState, State, SystemState
from agent.verdicts.wording import duration, plural

LINKS = (("/metrics", "metrics"), ("/api/v1/state", "state"), ("/config", "configuration"))
MOST_PROBLEMS = 100
MOST_PROCESSES = 100

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --weak: #767676; --bad: #c22; --warn: #a60; --good: #2a7d2a }
@media (prefers-color-scheme: dark) { :root { --weak: #999; --bad: #f77; --warn: #fb4; --good: #7c7 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; color: var(--weak) }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
div.wide { overflow-x: auto } .weak { color: var(--weak) } nav a { margin-right: 1rem }
.critical { color: var(--bad); font-weight: 600 } .warning { color: var(--warn) } .up { color: var(--good) }
"""


def landing_page(live: Live) -> str:
    """The page for the state now."""
    state = live.state()
    title = f"pdwatch {live.config.deployment}" if live.config.deployment else "pdwatch"
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{_when(state)} {escape(live.note)}</p>",
        "<nav aria-label='Other pages'>"
        + "".join(f"<a href='{url}'>{name}</a>" for url, name in LINKS)
        + "</nav></header><main>",
        _problems(state.problems, state.at),
        _system(state.system),
        *(_pool(name, pool) for name, pool in state.pools.items()),
        _targets(state),
        _memory(state.memory),
        f"</main><footer class='weak'><p>pdwatch {__version__}</p></footer>",
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta http-equiv='refresh' content='10'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _when(state: State) -> str:
    at = datetime.fromtimestamp(state.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{at}; counts, means and percentiles are over the last {escape(duration(state.window_s))}."


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """Cells are HTML already; the first `text_columns` columns are text, the others numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{'' if column < text_columns else ' class=n'}>{cell}</{tag}>" for column, cell in enumerate(row)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<caption>{escape(caption)}</caption><thead><tr>{cells('th', [escape(h) for h in head])}</tr></thead>"
    return f"<div class='wide'><table>{top}<tbody>{lines}</tbody></table></div>"


def _problems(problems: Sequence[ProblemState], now: float) -> str:
    if not problems:
        return "<h2>Problems</h2><p class='up'>None known.</p>"
    order = {"critical": 0, "warning": 1, "info": 2}
    worst_first = sorted(problems, key=lambda problem: (order[problem.severity], problem.since))
    rows = [
        (
            f"<span class='{problem.severity}'>{problem.severity}</span>",
            escape(problem.code),
            escape(problem.target or problem.pool or ""),
            escape(problem.text),
            escape(duration(now - problem.since)),
        )
        for problem in worst_first[:MOST_PROBLEMS]
    ]
    more = len(problems) - len(rows)
    rest = f"<p class='weak'>and {more} more: see the state</p>" if more > 0 else ""
    head = ("severity", "code", "where", "what", "for")
    return f"<h2>Problems</h2>{_table(f'{len(problems)} stand now', head, rows, 4)}{rest}"


def _system(system: SystemState) -> str:
    ttft = system.ttft
    share = system.contract_share
    bounds = "" if share is None else f"{numbers.share(share.low)} to {numbers.share(share.high)}"
    rows = [
        ("TTFT as a user sees it, mean", numbers.seconds(ttft.mean)),
        ("&emsp;prefill leg", numbers.seconds(ttft.parts.prefill_leg)),
        ("&emsp;KV and decode leg", numbers.seconds(ttft.parts.kv_and_decode_leg)),
        ("requests", numbers.per_second(system.requests_per_s)),
        ("prompts of contract length", bounds or numbers.UNKNOWN),
    ]
    said = f"{numbers.count(ttft.count)} requests; TTFT is {ttft.source}" if ttft.mean is not None else "no requests"
    return f"<h2>The system</h2>{_table(said, ('', 'value'), rows)}"


_SAID = {
    "ttft": "TTFT of this leg",
    "tpot": "TPOT, per request",
    "itl": "step time (ITL)",
    "queue": "queue time",
    "prefill": "prefill time",
    "decode": "decode time",
    "e2e": "whole leg",
}


def _pool(name: str, pool: PoolState) -> str:
    transfer, load, flow = pool.kv_transfer, pool.load, pool.throughput
    found: dict[str, Distribution] = {_SAID[key]: value for key, value in pool.latency.items()}
    found["KV transfer, per handle"] = transfer.time
    rows = [_latency_row(said, dist) for said, dist in found.items() if dist.status in ("ok", "no_data")]
    facts = [
        ("TPOT, per token", numbers.seconds(pool.tpot_token_mean)),
        ("requests", numbers.per_second(flow.requests_per_s)),
        ("prompt tokens", numbers.per_second(flow.prompt_tokens_per_s)),
        ("generated tokens", numbers.per_second(flow.generation_tokens_per_s)),
        ("running / waiting", f"{numbers.count(load.running)} / {numbers.count(load.waiting)}"),
        (
            "KV cache in use, fullest / mean",
            f"{numbers.share(load.kv_usage_max)} / {numbers.share(load.kv_usage_mean)}",
        ),
        ("finished", escape(", ".join(f"{key} {numbers.count(n)}" for key, n in pool.outcomes.items() if n)) or "0"),
    ]
    if pool.speculation is not None:
        spoken = pool.speculation
        length = (
            numbers.UNKNOWN if spoken.acceptance_length is None else f"{spoken.acceptance_length:.3g} tokens per step"
        )
        facts.append(("acceptance length", length))
        facts.append(("acceptance rate", numbers.share(spoken.acceptance_rate)))
    if transfer.transfers is not None:
        facts.append(("KV transfers", f"{numbers.count(transfer.transfers)}, {numbers.size(transfer.bytes)}"))
        failed = f"{numbers.count(transfer.failed)} / {numbers.count(transfer.expired)}"
        facts.append(("KV transfers failed / leases expired", failed))
    title = f"Pool {escape(name)} <span class='weak'>{escape(pool.role)}, {plural(len(pool.targets), 'target')}</span>"
    latency = _table("time, with bounds that always hold", ("", "mean", "p50", "p95", "p99", "count"), rows)
    return f"<h2>{title}</h2>{latency}{_table('flow and load', ('', 'value'), facts)}"


def _latency_row(said: str, found: Distribution) -> tuple[str, ...]:
    mean = (
        numbers.seconds(found.mean)
        if found.mean is not None
        else f"<span class=weak>{numbers.why_unknown(found)}</span>"
    )
    percentiles = (numbers.quantile(found.quantiles.get(key)) for key in ("0.5", "0.95", "0.99"))
    return (escape(said), mean, *percentiles, numbers.count(found.count))


def _targets(state: State) -> str:
    rows = [
        (
            escape(name),
            escape(pool_name),
            "<span class='up'>up</span>"
            if target.up
            else f"<span class='critical'>down</span> {escape(target.error or '')}",
            numbers.seconds(target.age_s),
            str(len(target.engines)),
            numbers.seconds(target.scrape_s),
            numbers.size(target.page_bytes),
        )
        for pool_name, pool in state.pools.items()
        for name, target in pool.targets.items()
    ]
    head = ("target", "pool", "page", "age", "engines", "scrape", "size")
    return f"<h2>Targets</h2>{_table('latest pages', head, rows, 3)}"


def _memory(processes: Sequence[MemoryState]) -> str:
    if not processes:
        return ""
    rows = [
        (
            escape(process.target),
            escape(process.title),
            str(process.pid),
            numbers.size(process.rss_bytes),
            numbers.size(process.anon_bytes),
            escape(process.trend),
        )
        for process in processes[:MOST_PROCESSES]
    ]
    head = ("target", "process", "pid", "RSS", "anonymous", "trend")
    return f"<h2>Memory</h2>{_table(f'{len(processes)} processes', head, rows, 2)}"
