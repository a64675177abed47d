"""Views made by hand, one per situation that a person may meet. In: nothing. Out: values that never change.

They are small, so that the golden pages can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.config import Objective
from agent.outputs.page import View
from agent.requests_state import RequestsState, SlowRequest
from agent.state import (
    LATENCIES,
    Bounded,
    Distribution,
    EngineState,
    KvFetch,
    KvTransfer,
    Legs,
    Load,
    MemoryState,
    PoolState,
    ProblemState,
    Quantile,
    RouterState,
    Speculation,
    State,
    SystemState,
    SystemTtft,
    TargetState,
    Throughput,
    TtftParts,
    VerdictState,
)
from agent.verdicts.alert import Alert

NOW = 1_800_000_000.0
TTFT = Objective(indicator="ttft", scope="system", target=2.5)
TPOT = Objective(indicator="tpot", scope="decode", target=0.020)
NOTHING = Distribution("no_data")
NO_TRANSFER = KvTransfer(None, NOTHING, NOTHING, None, None, None, None, None, None, None, None)
NO_TTFT = SystemTtft("no_data", 0, None, {}, "composed", TtftParts(None, None))


@dataclass(frozen=True)
class At:
    """A point of a series."""

    at: float
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Lines:
    """A history that holds what it is given."""

    named: Mapping[str, Sequence[At]]

    def series(self, name: str, begin: float, end: float, most_points: int = 300) -> Sequence[At]:
        return [point for point in self.named.get(name, ()) if begin <= point.at <= end][-most_points:]


def took(mean: float, count: int = 400) -> Distribution:
    """A latency with percentiles around its mean."""
    quantiles = {
        "0.5": Quantile(0.9 * mean, 0.8 * mean, mean, (0.88 * mean, 0.92 * mean)),
        "0.9": Quantile(1.5 * mean, 1.2 * mean, 2 * mean),
        "0.95": Quantile(1.8 * mean, 1.5 * mean, 2.5 * mean),
        "0.99": Quantile(3 * mean, 3 * mean, None),
    }
    return Distribution("ok", count, mean, quantiles)


def engine(role: str, slow: float = 1.0) -> EngineState:
    """One rank with work."""
    if role == "prefill":
        latency = {"ttft": took(1.4), "queue": took(0.3), "prefill": took(1.0), "e2e": took(1.5)}
    else:
        latency = {
            "ttft": took(0.2),
            "tpot": took(0.017 * slow),
            "itl": took(0.038 * slow),
            "queue": took(0.12),
            "prefill": took(0.04),
        }
    return EngineState(
        latency, 0.017, None, NO_TRANSFER, Load(3.0, 1.0, kv_usage_max=0.35), Throughput(1.0), {"stop": 100}
    )


def target(role: str, engines: int, age_s: float | None = 2.0) -> TargetState:
    """One address with its ranks."""
    ranks = {str(number): engine(role, 1.5 if number == 1 else 1.0) for number in range(engines)}
    return TargetState(True, age_s, 300.0, ranks, (), scrape_s=0.02, page_bytes=180_000, samples=3000, scrapes=60)


def pool(role: str, targets: int = 1, engines: int = 2) -> PoolState:
    """A pool at work."""
    of_prefill = role == "prefill"
    one = engine(role)
    transfer = (
        replace(NO_TRANSFER, expired=0, after_expiry=0, failed_notifications=0)
        if of_prefill
        else KvTransfer(800, took(0.05), took(0.001), 10**11, 3.3e8, 2.4e9, 0, 0, None, None, 0, "nixl")
    )
    drafting = (
        Speculation(9000, 9000, 6300, 0, 0.7, 1.7, (0.7,), (0.7,))
        if of_prefill
        else Speculation(20_000, 60_000, 26_000, 30, 0.433, 2.3, (0.68, 0.42, 0.2), (0.68, 0.62, 0.48))
    )
    return PoolState(
        role="prefill" if of_prefill else "decode",
        gpus=8,
        targets={f"{role}-{number}": target(role, engines) for number in range(targets)},
        latency=one.latency,
        tpot_token_mean=None if of_prefill else 0.0168,
        tpot_mix_difference=None,
        throughput=Throughput(1.4, 90_000.0, 410.0, 51.0, 58.8),
        speculation=drafting,
        kv_transfer=transfer,
        load=Load(6.0, 2.0, 1.0, 1.0, KvFetch(0.0, 1.0, 0.0), 0.41, 0.35, 0),
        outcomes={"stop": 380, "length": 20, "error": 0},
        http={"2xx": 400},
    )


def verdict(objective: Objective, word: str, value: float | None, **more: object) -> VerdictState:
    """The judgement of an objective."""
    made = VerdictState(
        objective.name,
        objective.scope,
        "met",
        "ok",
        NOW - 7200,
        "request_mean",
        value,
        value,
        value,
        objective.target,
        0 if value is None else 412,
    )
    return replace(made, **{"verdict": word, **more})  # type: ignore[arg-type]


def process(number: int, **more: object) -> MemoryState:
    """A worker whose memory stands still."""
    made = MemoryState(
        target="decode-0",
        pid=4000 + number,
        started=NOW - 90_000,
        title=f"VLLM::Worker_DP{number}",
        kind="worker",
        engine=str(number),
        rss_bytes=12 << 30,
        anon_bytes=10 << 30,
        swap_bytes=0,
        file_bytes=1 << 30,
        shmem_bytes=1 << 30,
        trend="steady",
        severity=None,
        slope_bytes_per_hour=Bounded(2e6, -1e6, 5e6),
        limit_bytes=64 << 30,
        hours_to_limit=Bounded(None, None, None),
        measure="anon+swap",
        at=NOW,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def met() -> View:
    """A day like any other, with a router, history and spans."""
    ttft = took(1.7)
    state = State(
        at=NOW,
        window_s=300.0,
        pools={"prefill": pool("prefill", 2), "decode": pool("decode")},
        system=SystemState(
            SystemTtft("ok", 412, 1.7, ttft.quantiles, "router", TtftParts(1.5, 0.2)),
            1.4,
            7_500.0,
            legs=Legs(412, 410, 2, 413),
            router=RouterState("vllm-router", {"router-0": target("router", 0)}, 413, 1.4, 0, 3.0, 0.0, {}),
        ),
        memory=(process(0), process(1)),
        verdicts=(verdict(TTFT, "met", 1.7, low=1.5, high=1.9), verdict(TPOT, "met", 0.017)),
        deployment="glm-prod",
        requests=RequestsState(
            NOW - 300,
            NOW,
            400,
            True,
            {"decode": 1.0},
            {},
            ttft,
            took(0.017),
            ttft,
            took(0.017),
            {"queue": took(0.3), "prefill": took(1.0), "handover": took(0.1), "kv_wait": took(0.2), "rest": took(0.1)},
            (),
            (),
        ),
        slowest_requests=(
            SlowRequest(
                NOW - 60,
                6.1,
                0.018,
                31.0,
                {"queue": 2.0, "prefill": 4.0, "rest": 0.1, "kv_wait": None},
                "prefill-0",
                "decode-0",
                180_000,
                700,
                "0af7",
                "cmpl-req-1-0",
                "https://traces.example/0af7",
            ),
        ),
    )
    day = [NOW - 86_400 + 3600 * hour for hour in range(25)]
    lines = {
        "objective/ttft/system": [At(at, 1.4 + 0.02 * n, 1.3, 2.0) for n, at in enumerate(day)],
        "objective/tpot/decode": [At(at, None if n == 5 else 0.016) for n, at in enumerate(day)],
        "acceptance_length/decode": [At(at, 2.3) for at in day],
        "kv_transfer/decode": [At(at, 0.05) for at in day],
    }
    return View(state, (TTFT, TPOT), deployment="glm-prod", runbooks="https://runbooks.example/", history=Lines(lines))


def breached() -> View:
    """Acceptance has collapsed: one promise broken with its cause, one about to be."""
    view = met()
    why = "tokens per step fell from 2.31 to 1.05"
    cause = {"code": "acceptance_drop", "text": why, "evidence": {}}
    texts = {
        "summary": "A promise is broken: mean TPOT of decode.",
        "description": "mean TPOT of decode 38.5 ms, promised 20 ms.",
        "cause": why,
        "runbook_url": "https://runbooks.example/#pdwatchobjectivebreached",
        "evidence": "/var/lib/pdwatch/evidence/20270115T080000Z-PDWatchObjectiveBreached-1f0c9a3b",
    }
    labels = {
        "alertname": "PDWatchObjectiveBreached",
        "severity": "critical",
        "scope": "decode",
        "objective": "tpot",
    }
    ended = {"alertname": "PDWatchKvExpired", "severity": "warning", "scope": "prefill", "code": "kv_expired"}
    state = replace(
        view.state,
        verdicts=(
            verdict(TTFT, "breached", 2.7, status="pending", since=NOW - 60, low=2.6, high=2.8),
            verdict(TPOT, "breached", 0.0385, status="firing", since=NOW - 600, low=0.036, high=0.041, cause=cause),
        ),
        problems=(
            ProblemState("rank_slow", "decode-0", NOW - 400, "engine 1 of decode-0: slow steps", "warning", engine="1"),
            ProblemState("restarted", "prefill-0", NOW - 900, "prefill-0 began its counters again", "info"),
            ProblemState("engine_frozen", "decode-0", NOW - 100, "engine 0 stands still", "critical", engine="0"),
        ),
        requests=None,
        slowest_requests=(),
    )
    alerts = (Alert(labels, NOW - 480, texts), Alert(ended, NOW - 3000, {"summary": "KV leases ran out."}, NOW - 300))
    return replace(view, state=state, alerts=alerts, evidence=True)


def no_data() -> View:
    """Everything is up, and nobody asks anything."""
    quiet = dict.fromkeys(LATENCIES, NOTHING)
    pools = {
        name: replace(
            each,
            latency=quiet,
            tpot_token_mean=None,
            throughput=Throughput(0.0, 0.0, 0.0),
            speculation=None,
            kv_transfer=NO_TRANSFER,
            load=Load(0.0, 0.0, kv_usage_max=0.0, kv_usage_mean=0.0),
            outcomes={},
        )
        for name, each in met().state.pools.items()
    }
    said = "mean TTFT of the system: no traffic in the last 5m"
    state = State(
        NOW,
        300.0,
        pools,
        SystemState(NO_TTFT, 0.0, 0.0),
        verdicts=(verdict(TTFT, "no_data", None, text=said), verdict(TPOT, "no_data", None)),
    )
    return View(state, (TTFT, TPOT), note="This is a recording.")


def unknown() -> View:
    """The watch has just been started: no page has come, nothing is judged."""
    nobody = TargetState(False, None, 0.0, {}, (), error="refused")
    pools = {
        role: PoolState(
            role, None, {f"{role}-0": nobody}, {}, None, None, Throughput(), None, NO_TRANSFER, Load(), {}, {}
        )
        for role in ("prefill", "decode")
    }
    state = State(NOW, 300.0, pools, SystemState(NO_TTFT, None, None))
    return View(state, (TTFT, TPOT))


def leak() -> View:
    """The promises are kept while a worker eats the host's memory."""
    view = met()
    leaking = process(
        2,
        trend="leaking",
        severity="critical",
        anon_bytes=40 << 30,
        slope_bytes_per_hour=Bounded(2.0 * 2**30, 1.9 * 2**30, 2.1 * 2**30),
        hours_to_limit=Bounded(12.0, 11.4, 12.7),
        reason="grows in a straight line, whatever the load",
    )
    growing = process(3, trend="growing", severity="warning", limit_bytes=None)
    past = [At(NOW - 3600 * hour, (40 - 2 * hour) * 2.0**30) for hour in range(12, -1, -1)]
    found = (ProblemState("memory_leak", "decode-0", NOW - 3600, "VLLM::Worker_DP2 leaks 2 GiB/h", "critical"),)
    state = replace(view.state, memory=(process(0), leaking, growing), problems=found)
    return replace(view, state=state, history=Lines({"memory/decode-0/VLLM::Worker_DP2": past}))


VIEWS = {"met": met, "breached": breached, "no-data": no_data, "unknown": unknown, "leak": leak}
