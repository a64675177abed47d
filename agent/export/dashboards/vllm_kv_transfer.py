"""Board "KV transfer" without pdwatch. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.frame import VLLM_TAG, Board
from agent.export.dashboards.kv_transfer import NO_TRANSFERS
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import ANY_IS_BAD, FULL, NOTHING
from agent.export.dashboards.panels import About, Query, distribution, lines, numbers
from agent.export.dashboards.prefill import POOL
from agent.export.dashboards.vllm_events import vllm_events
from agent.export.dashboards.vllm_judged import promised_lines
from agent.export.dashboards.vllm_prefill import WINDOW
from agent.export.dashboards.vllm_queries import BY_POOL, VLLM_DEPLOYMENT, Vllm, pools

FAILURES = {
    "Failed transfers": ("kv_failed_transfers", "PDWatchTransferFailures"),
    "Failed notifications": ("kv_failed_notifications", "PDWatchTransferFailures"),
    "Leases that ran out": ("kv_expired", "PDWatchKvExpired"),
    "Read after expiry": ("kv_after_expiry", "PDWatchKvExpired"),
}


def vllm_kv_transfer(config: Config) -> Board:
    """For sites without pdwatch."""
    vllm = Vllm(config)
    return Board(
        word="vllm-kv-transfer",
        title="pdwatch rules / KV transfer",
        description="Is the hand-over of KV healthy, and how fast? From vLLM's own metrics and the recording rules.",
        tag=VLLM_TAG,
        variables=[VLLM_DEPLOYMENT, pools("pool")],
        events=vllm_events(),
        rows=[
            Row("Healthy?", [_failures(vllm, title, *of) for title, of in FAILURES.items()]),
            Row("How long", _long(config, vllm)),
            Row("How much, and who waits", _much(vllm)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _failures(vllm: Vllm, title: str, metric: str, runbook: str) -> Place:
    about = About(
        title,
        "In the time range above, counted by every rank. No number: this version of vLLM does not count it.",
        empty="Not counted",
        decimals=0,
        runbooks=(runbook,),
    )
    return Place(
        numbers(about, Query(vllm.increase(metric, "$__range"), POOL), thresholds=ANY_IS_BAD, spark=False), 6, 5
    )


def _long(config: Config, vllm: Vllm) -> list[Place]:
    time = lines(
        About(
            "Time of one transfer",
            "Mean and interpolated 95th percentile. Transfers that hang are never counted: see the stages below.",
            unit="s",
            empty=NO_TRANSFERS,
            runbooks=("PDWatchKvStalled",),
        ),
        Query(vllm.recorded("pool:vllm_kv_transfer_seconds:mean5m"), f"mean: {POOL}"),
        Query(vllm.recorded("pool:vllm_kv_transfer_seconds:p95_5m"), f"p95: {POOL}"),
        *promised_lines(config, ["kv_transfer"], system=False),
    )
    post = lines(
        About(
            "Time to post a transfer",
            "Descriptors and handshakes, before the first byte moves.",
            unit="s",
            empty=NO_TRANSFERS,
        ),
        Query(vllm.mean("kv_post_time", BY_POOL, WINDOW), POOL),
    )
    heat = distribution(
        About(
            "All transfers",
            "Each cell one bucket of the servers; darker is more transfers.",
            unit="s",
            empty=NO_TRANSFERS,
        ),
        Query(vllm.buckets("kv_transfer"), "{{le}}"),
    )
    return [Place(time, 8), Place(post, 8), Place(heat, 8)]


def _much(vllm: Vllm) -> list[Place]:
    moved = lines(
        About("KV moved", "What the network carries.", unit="Bps", empty=NO_TRANSFERS),
        Query(vllm.rate("kv_bytes_sum"), POOL),
    )
    handle = lines(
        About("Throughput of one transfer", "Bytes of one transfer over its time.", unit="Bps", empty=NO_TRANSFERS),
        Query(f"{vllm.increase('kv_bytes_sum', WINDOW)} / ({vllm.increase('kv_transfer_sum', WINDOW)} > 0)", POOL),
    )
    stages = lines(
        About(
            "Requests whose KV is being fetched",
            "In progress without any transfer completed is a stall.",
            runbooks=("PDWatchKvStalled",),
        ),
        Query(vllm.gauge("sum", "kv_fetch", (*BY_POOL, "stage")), "{{stage}}: {{pool}} {{deployment}}"),
    )
    recomputed = lines(
        About(
            "Prompt tokens computed on the spot",
            "On a decode pool: KV that was not used.",
            empty=NOTHING,
            runbooks=("PDWatchLocalRecompute",),
        ),
        Query(vllm.rate("prompt_tokens_by_source", (*BY_POOL, "source")), "{{source}}: {{pool}} {{deployment}}"),
    )
    kv = lines(
        About(
            "KV cache in use, fullest engine",
            "Prefill full and decode empty: nobody collects.",
            unit="percentunit",
            runbooks=("PDWatchKvPinned",),
        ),
        Query(vllm.gauge("max", "kv_usage"), POOL),
        most=1,
        thresholds=FULL,
    )
    return [Place(moved), Place(handle), Place(stages), Place(recomputed), Place(kv, 24, 7)]
