"""The fleet's own page. In: the running demo. Out: one HTML text: what runs, what is true, a button for each incident.

What stands here is what pdwatch has to find out by itself, from pages and processes alone. Needs no script and nothing
from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from agent.demo.child import MOST_BYTES
from agent.demo.incidents import INCIDENTS
from agent.demo.process_trees import LEAKING_TARGET, LEAKING_TITLE
from agent.demo.server import Server
from agent.demo.switchboard import Running
from agent.demo.truth import Sample, Truth
from agent.demo.world import TRUTH_SECONDS, DemoWorld

UNKNOWN = "not known"
MIB = 1 << 20

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --weak: #666; --on: #a11 }
@media (prefers-color-scheme: dark) { :root { --weak: #aaa; --on: #f99 } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 64rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; color: var(--weak) }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); font-weight: normal }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
thead th, strong { font-weight: 600 } div.wide { overflow-x: auto } form { margin: 0 } .weak { color: var(--weak) }
button { font: inherit; padding: .25rem .9rem; min-width: 5rem; cursor: pointer } tr.on th, .on { color: var(--on) }
a, button { outline-offset: 2px }
"""


def overview_page(world: DemoWorld, pdwatch: str = "") -> str:
    """The page as of now. `pdwatch`: the address of the pdwatch that watches this fleet, "" while it has none."""
    now, fast = world.fleet.now, "" if world.speed == 1 else f", {world.speed:g} times as fast as yours"
    link = f"<a href='{escape(pdwatch)}'>pdwatch, which watches it</a>" if pdwatch else "pdwatch starts"
    body = [
        "<header><h1>The demo fleet</h1>",
        f"<p>{_what(world)}</p><nav aria-label='Pages'>{link} &middot; <a href='/'>this page, anew</a></nav>",
        f"<p class='weak'>{_moment(now)} in the demo{fast}.</p></header><main>",
        _incidents(world),
        _truth(world.truth()),
        _servers(world.fleet.servers.values(), world),
        _processes(world),
        "</main>",
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>"
        f"<title>The demo fleet of pdwatch</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>"
    )


def _what(world: DemoWorld) -> str:
    topology = world.fleet.topology
    prefill, decode = topology.prefill, topology.decode
    return (
        f"A simulated vLLM deployment of {escape(topology.model)}: {prefill.targets} prefill servers of "
        f"{prefill.engines} engines and {decode.targets} decode server of {decode.engines}. Its pages, their numbers "
        "and its processes are all that pdwatch sees; what is below is what really happens."
    )


def _incidents(world: DemoWorld) -> str:
    running = world.incidents.running
    rows = "".join(
        f"<tr id='{name}'{' class=on' if name in running else ''}><th scope='row'>{name}</th>"
        f"<td>{escape(incident.summary)}{'' if incident.is_fault else ' <span class=weak>(no fault)</span>'}</td>"
        f"<td>{_state(running.get(name), world.fleet.now)}</td><td>{_button(name, name in running)}</td></tr>"
        for name, incident in INCIDENTS.items()
    )
    head = "<th scope='col'>incident</th><th scope='col'>what happens</th><th scope='col'>now</th>"
    head += "<th scope='col'>start or stop</th>"
    said = f"{len(running)} of {len(INCIDENTS)} run" if running else "none runs"
    return f"<h2>Incidents</h2>{_table(said, head, rows)}"


def _state(running: Running | None, now: float) -> str:
    if running is None:
        return "<span class='weak'>off</span>"
    rest = "" if running.ends is None else f", ends in {_duration(running.ends - now)}"
    return f"<strong>on</strong> for {_duration(now - running.since)}{rest}"


def _button(name: str, runs: bool) -> str:
    action = "stop" if runs else "start"
    return (
        f"<form method='post' action='/incidents'><input type='hidden' name='incident' value='{name}'>"
        f"<button name='action' value='{action}' aria-label='{action.capitalize()} {name}'>{action.capitalize()}"
        "</button></form>"
    )


def _truth(seen: Truth) -> str:
    rows = [
        ("TTFT of a user", *_figures(seen.user_ttft)),
        ("TPOT", *_figures(seen.tpot)),
        ("prefill leg, arrival to first token", *_figures(seen.prefill_ttft)),
        ("queue before prefill", *_figures(seen.prefill_queue)),
        ("KV transfer", *_figures(seen.transfer)),
        ("decode step", _seconds(seen.step_seconds / seen.steps if seen.steps else None), "", "", f"{seen.steps:,}"),
        (
            "acceptance length, tokens per step",
            UNKNOWN if seen.acceptance_length is None else f"{seen.acceptance_length:.2f}",
            "",
            "",
            f"{seen.steps:,}",
        ),
    ]
    head = "<th scope='col'></th>" + "".join(
        f"<th scope='col' class='n'>{name}</th>" for name in ("mean", "median", "95 of 100 within", "count")
    )
    ended = ", ".join(f"{reason} {count}" for reason, count in sorted(seen.finished.items())) or "none"
    table = _table(f"the last {_duration(TRUTH_SECONDS)}", head, _rows(rows))
    return f"<h2>What is true</h2>{table}<p class='weak'>Requests that ended: {escape(ended)}.</p>"


def _figures(sample: Sample) -> tuple[str, str, str, str]:
    middle, most = sample.quantile(0.5), sample.quantile(0.95)
    return _seconds(sample.mean), _seconds(middle), _seconds(most), f"{sample.count:,}"


def _servers(servers: Iterable[Server], world: DemoWorld) -> str:
    rows = []
    for server in servers:
        state = "up" if server.takes_requests else "draining" if server.up else "down, being restarted"
        for engine in server.engines:
            engine.settle(world.fleet.now)
        running, waiting = (
            sum(engine.metrics.gauges[key] for engine in server.engines) if server.up else None
            for key in ("running", "waiting")
        )
        shown = ["" if count is None else f"{count:.0f}" for count in (running, waiting)]
        rows.append((server.name, *shown, state, f"port {world.ports[server.name]}, /metrics"))
    head = "<th scope='col'>server</th><th scope='col' class='n'>running</th><th scope='col' class='n'>waiting</th>"
    head += "<th scope='col' class='n'>state</th><th scope='col' class='n'>its page</th>"
    return f"<h2>Servers</h2>{_table('requests at this moment', head, _rows(rows))}"


def _processes(world: DemoWorld) -> str:
    trees = world.trees
    if trees is None:
        return ""
    if trees.trouble:
        return f"<h2>Processes</h2><p>{escape(trees.trouble)}</p>"
    leaked = trees.leaked_bytes(world.fleet)
    full = " It is at the demo's cap and grows no more." if leaked >= MOST_BYTES else ""
    return (
        f"<h2>Processes</h2><p>Real processes under vLLM's titles run beside the servers. {LEAKING_TITLE} of "
        f"{LEAKING_TARGET} has leaked {leaked / MIB:.0f} of at most {MOST_BYTES // MIB} MiB of real memory.{full} "
        "The memory watch lives sixty times as fast as the rest: what takes it hours takes minutes here.</p>"
    )


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(
        f"<tr><th scope='row'>{escape(row[0])}</th>"
        + "".join(f"<td class='n'>{escape(c)}</td>" for c in row[1:])
        + "</tr>"
        for row in rows
    )


def _table(caption: str, head: str, rows: str) -> str:
    return (
        f"<div class='wide' tabindex='0' role='group' aria-label='{escape(caption)}'><table>"
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _moment(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
