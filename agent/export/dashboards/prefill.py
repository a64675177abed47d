"""Board "Prefill": where the time to the first token goes. In: the configuration. Out: a board.

The waterfall follows one request: queue, prefill, hand-over, KV transfer, first token on decode. Its parts are means
over the requests of the window, so they add up; percentiles of parts would not.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.bounds import READS, band
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import FULL, NOTHING
from agent.export.dashboards.panels import About, Query, bars, distribution, lines, numbers
from agent.export.dashboards.promises import edges, target_lines
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DECODE, DEPLOYMENT, PERCENTILE, PREFILL

ENGINE = "{{target}} engine {{engine}} {{deployment}}"
POOL = "{{pool}} {{deployment}}"


def prefill_board(config: Config) -> Board:
    """From arrival to the first token."""
    own, decode = Own(pool="prefill"), Own(pool="decode")
    return Board(
        word="prefill",
        title="pdwatch / Prefill",
        description="Where does the time to the first token go: queue, prefill, transfer, first step?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, PREFILL, DECODE, PERCENTILE],
        events=own_events(),
        rows=[
            Row("Waterfall of the first token", _waterfall(config, own, decode)),
            Row("The prefill leg", _leg(config, own)),
            Row("Load", _load(own)),
            Row("Engines", _engines(own)),
            Row("What goes wrong", _wrong(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def waterfall(own: Own, decode: Own) -> list[Query]:
    """The parts in the order in which a request goes through them."""
    queue, prefill, leg = (
        own.mean_over_pools(f"pool_{word}") for word in ("queue_time", "prefill_time", "e2e_latency")
    )
    waits, first_step, ttft = (
        decode.mean_over_pools(f"pool_{word}") for word in ("queue_time", "prefill_time", "ttft")
    )
    transfer = decode.mean_over_pools("pool_kv_transfer_time")
    parts = {
        "1 prefill: queue": queue,
        "2 prefill: compute": prefill,
        "3 prefill: rest of the leg": f"clamp_min({leg} - {queue} - {prefill}, 0)",
        "4 KV transfer (one handle)": f"(({transfer}) < ({waits}) or ({waits}))",
        "5 decode: waits otherwise": f"clamp_min({waits} - {transfer}, 0)",
        "6 decode: first step": first_step,
        "7 decode: rest until the token": f"clamp_min({ttft} - {waits} - {first_step}, 0)",
    }
    return [Query(expr, f"{name} {{{{deployment}}}}") for name, expr in parts.items()]


_PARTS = (
    "Mean seconds of each part, in order: waiting in prefill's queue, computing the prompt, the rest of that leg "
    "(tokenising, answering the proxy), moving the KV, other waiting on decode (a full cache, a handshake), decode's "
    "first step, and what is left until the token is out. "
)


def _waterfall(config: Config, own: Own, decode: Own) -> list[Place]:
    parts = waterfall(own, decode)
    now = bars(
        About(
            "Waterfall now",
            _PARTS + "The longest bar is where to work. Several transfers of one request run at the same time, so part "
            "4 is that of one.",
            unit="s",
            boards={"kv-transfer": "transfers"},
        ),
        *parts,
    )
    over_time = lines(
        About(
            "Waterfall over time",
            _PARTS + "The height of the stack is the mean time to the first token with serial dispatch; the part that "
            "grew is the cause.",
            unit="s",
            runbooks=("PDWatchObjectiveBreached",),
        ),
        *parts,
        stacked=True,
    )
    user = numbers(
        About("First token, as a user waits", "Mean of both legs together, against the promise.", unit="s"),
        Query(Own().now("system_ttft_mean_seconds"), "{{deployment}}"),
        thresholds=edges(config, ["ttft"], system=True),
    )
    contract = numbers(
        About(
            "Prompts of contract length",
            "At least and at most this share of prompts is of the length that the promise speaks of; far from 100 % "
            "the times above are those of other traffic than was promised for.",
            unit="percentunit",
        ),
        Query(Own().now("system_contract_share_low_ratio"), "at least {{deployment}}"),
        Query(Own().now("system_contract_share_high_ratio"), "at most {{deployment}}"),
    )
    return [Place(now, 9, 9), Place(over_time, 11, 9), Place(user, 4, 4), Place(contract, 4, 5)]


def _leg(config: Config, own: Own) -> list[Place]:
    ttft = band(
        About("First token of the leg, $prefill", READS, unit="s", repeat="prefill"),
        own,
        "pool_ttft",
        *target_lines(config, own, ["ttft"], system=False),
    )
    at = {"percentile": "$percentile"}
    split = lines(
        About(
            "Queue and compute",
            "Waiting before the prompt is scheduled, and computing it. A growing queue at steady compute is load; "
            "growing compute at a steady queue is longer prompts, larger batches or a slower GPU.",
            unit="s",
        ),
        Query(own.now("pool_queue_time_mean_seconds"), f"queue, mean: {POOL}"),
        Query(own.now("pool_queue_time_percentile_seconds", **at), "queue, {{percentile}}: {{pool}} {{deployment}}"),
        Query(own.now("pool_prefill_time_mean_seconds"), f"compute, mean: {POOL}"),
        Query(
            own.now("pool_prefill_time_percentile_seconds", **at), "compute, {{percentile}}: {{pool}} {{deployment}}"
        ),
        *target_lines(config, own, ["queue", "prefill"], system=False),
    )
    heat = distribution(
        About(
            "All first tokens of the leg",
            "Each column is one stretch of time, each cell one bucket of the servers; darker is more requests. Two "
            "bands are two kinds of prompts, or one slow engine.",
            unit="s",
        ),
        Query(own.buckets("ttft_seconds"), "{{le}}"),
    )
    return [Place(ttft, 12, 8), Place(split, 12, 8), Place(heat, 12, 8)]


def _load(own: Own) -> list[Place]:
    waiting = lines(
        About(
            "Waiting and running",
            "Requests in the batches now, and waiting: for room (capacity) or put off (deferred). Waiting that only "
            "grows has no end: see the imbalance of pools before adding servers.",
            runbooks=("PDWatchQueueBuildup", "PDWatchPoolImbalance"),
            boards={"capacity": "both pools"},
        ),
        Query(own.now("pool_requests_running"), f"running: {POOL}"),
        Query(own.now("pool_requests_waiting_by_reason"), "waiting, {{reason}}: {{pool}} {{deployment}}"),
    )
    tokens = lines(
        About(
            "Prompt tokens per second", "What prefill works through. It falls with the queue full: prefill is blocked."
        ),
        Query(own.now("pool_prompt_tokens_per_second"), POOL),
    )
    kv = lines(
        About(
            "KV cache in use",
            "Prefill keeps a request's KV until decode has read it: high here without traffic means that nobody "
            "collects it.",
            unit="percentunit",
            runbooks=("PDWatchKvPinned",),
        ),
        Query(own.now("pool_kv_usage_max_ratio"), f"fullest engine: {POOL}"),
        Query(own.now("pool_kv_usage_mean_ratio"), f"mean: {POOL}"),
        most=1,
        thresholds=FULL,
    )
    return [Place(waiting, 8, 8), Place(tokens, 8, 8), Place(kv, 8, 8)]


def _engines(own: Own) -> list[Place]:
    ttft = lines(
        About(
            "First token by engine",
            "Mean of each engine. One line apart from the others is one engine's trouble.",
            unit="s",
        ),
        Query(own.now("engine_ttft_mean_seconds"), ENGINE),
    )
    waiting = lines(
        About("Waiting by engine", "A queue on one engine while others idle is routing, not load."),
        Query(own.now("engine_requests_waiting"), ENGINE),
    )
    return [Place(ttft), Place(waiting)]


def _wrong(own: Own) -> list[Place]:
    expired = lines(
        About(
            "KV leases that ran out",
            "Decode had not read the KV before prefill let it go: such answers may be wrong although they count as "
            "successes. Counted on the prefill side. Any is too many.",
            empty=NOTHING,
            runbooks=("PDWatchKvExpired",),
            boards={"kv-transfer": "transfers"},
        ),
        Query(own.increase("kv_expired_total", "$__rate_interval"), POOL),
        thresholds=((None, "green"), (1, "red")),
    )
    outcomes = lines(
        About(
            "Requests finished, by reason",
            "Prefill legs end with `length` after their one token; `error` and `abort` are the ones to look at.",
            unit="reqps",
            runbooks=("PDWatchErrorsHigh",),
        ),
        Query(own.rate("requests_finished_total"), "{{reason}}: {{pool}} {{deployment}}"),
    )
    answers = lines(
        About("HTTP answers", "By class of status, and what was refused at admission.", unit="reqps"),
        Query(own.rate("http_responses_total"), "{{status}}: {{pool}} {{deployment}}"),
        Query(own.rate("admission_rejected_total"), f"refused: {POOL}"),
    )
    return [Place(expired, 8), Place(outcomes, 8), Place(answers, 8)]
