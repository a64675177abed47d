"""Board "KV transfer": the hand-over from prefill to decode. In: the configuration. Out: a board.

What is counted where depends on who moves the KV: with a pulling connector transfers are on decode's pages, with a
pushing one on prefill's; leases run out on prefill. So all pools are shown, each under its name.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.bounds import READS, band
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.looks import ANY_IS_BAD, FULL, NOTHING
from agent.export.dashboards.panels import About, Query, distribution, lines, numbers
from agent.export.dashboards.prefill import POOL
from agent.export.dashboards.promises import target_lines
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DEPLOYMENT, PERCENTILE
from agent.export.dashboards.variables import POOL as POOLS

NO_TRANSFERS = "No transfers"
FAILURES = {
    "failed transfers": "kv_failed_transfers_total",
    "failed notifications": "kv_failed_notifications_total",
    "leases that ran out": "kv_expired_total",
    "read after expiry": "kv_after_expiry_total",
}


def kv_transfer_board(config: Config) -> Board:
    """How long, how much, and what is lost."""
    own = Own(pool="pool")
    return Board(
        word="kv-transfer",
        title="pdwatch / KV transfer",
        description="Is the hand-over of KV from prefill to decode healthy, and how fast is it?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, POOLS, PERCENTILE],
        events=own_events(),
        rows=[
            Row("Healthy?", _healthy(own)),
            Row("How long", _long(config, own)),
            Row("How much", _much(own)),
            Row("Who waits", _waits(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _healthy(own: Own) -> list[Place]:
    tiles = [
        Place(
            numbers(
                About(
                    name.capitalize(),
                    "In the time range above. Counted by every rank: one request may count several times. Any is worth "
                    "a look; no number means that this version of vLLM does not count it.",
                    empty="Not counted",
                    decimals=0,
                    runbooks=(runbook,),
                ),
                Query(own.increase(metric, "$__range"), POOL),
                thresholds=ANY_IS_BAD,
                spark=False,
            ),
            6,
            5,
        )
        for (name, metric), runbook in zip(
            FAILURES.items(),
            ("PDWatchTransferFailures", "PDWatchTransferFailures", "PDWatchKvExpired", "PDWatchKvExpired"),
            strict=True,
        )
    ]
    over_time = lines(
        About(
            "Failures over time",
            "Failed transfers are the network or a server that died; leases that ran out are decode too slow to "
            "collect. The two need different people.",
            empty=NOTHING,
        ),
        *(Query(own.rate(metric), f"{name}: {POOL}") for name, metric in FAILURES.items()),
    )
    expired = own.increase("kv_expired_total", "$__rate_interval", ())
    finished = Own().increase("requests_finished_total", "$__rate_interval", ())
    share = lines(
        About(
            "Leases that ran out, per finished request",
            "The part of requests whose answer may rest on KV that was given to somebody else.",
            unit="percentunit",
            runbooks=("PDWatchKvExpired",),
        ),
        Query(f"{expired} / ({finished} > 0)", "{{deployment}}"),
    )
    legs = lines(
        About(
            "Legs",
            "Prefill legs that ended and decode legs that began in the last minutes. They are the same requests: a gap "
            "that stays is requests lost on the way.",
            runbooks=("PDWatchLegsUnmatched",),
        ),
        Query(own.now("system_legs"), "{{leg}} {{deployment}}"),
    )
    return [*tiles, Place(over_time, 8), Place(share, 8), Place(legs, 8)]


def _long(config: Config, own: Own) -> list[Place]:
    time = band(
        About(
            "Time of one transfer, $pool",
            READS + " A pool that moves no KV by itself shows nothing.",
            unit="s",
            empty=NO_TRANSFERS,
            repeat="pool",
            runbooks=("PDWatchKvStalled",),
        ),
        own,
        "pool_kv_transfer_time",
        *target_lines(config, own, ["kv_transfer"]),
    )
    post = lines(
        About(
            "Time to post a transfer",
            "Before the first byte moves: descriptors and handshakes. A first contact between two engines is slow; "
            "after that it should be small beside the transfer.",
            unit="s",
            empty=NO_TRANSFERS,
        ),
        Query(own.now("pool_kv_post_time_mean_seconds"), f"mean: {POOL}"),
        Query(
            own.now("pool_kv_post_time_percentile_seconds", percentile="$percentile"),
            "{{percentile}}: {{pool}} {{deployment}}",
        ),
    )
    heat = distribution(
        About(
            "All transfers",
            "Each cell one bucket of the servers; darker is more transfers.",
            unit="s",
            empty=NO_TRANSFERS,
        ),
        Query(own.buckets("kv_transfer_time_seconds"), "{{le}}"),
    )
    return [Place(time, 24, 8), Place(post), Place(heat)]


def _much(own: Own) -> list[Place]:
    moved = lines(
        About(
            "KV moved",
            "Bytes per second over the window's real time: what the network carries.",
            unit="Bps",
            empty=NO_TRANSFERS,
        ),
        Query(own.now("pool_kv_bytes_per_second"), POOL),
    )
    handle = lines(
        About(
            "Throughput of one transfer",
            "Bytes of one transfer over its time. It falls when transfers share the network, or when that got slower: "
            "compare with the bytes moved in all.",
            unit="Bps",
            empty=NO_TRANSFERS,
        ),
        Query(own.now("pool_kv_handle_bytes_per_second"), POOL),
    )
    count = lines(
        About(
            "Transfers per second",
            "Handles completed; several per request with tensor parallelism.",
            unit="ops",
            empty=NO_TRANSFERS,
        ),
        Query(own.rate("kv_transfers_total"), POOL),
    )
    size = lines(
        About(
            "Size of one transfer",
            "Bytes per handle: longer prompts, or the KV of more layers at once.",
            unit="bytes",
            empty=NO_TRANSFERS,
        ),
        Query(f"{own.rate('kv_transferred_bytes_total')} / ({own.rate('kv_transfers_total')} > 0)", POOL),
    )
    return [Place(moved), Place(handle), Place(count), Place(size)]


def _waits(own: Own) -> list[Place]:
    stages = lines(
        About(
            "Requests whose KV is being fetched",
            "Waiting to start, in progress, and done but not yet scheduled. In progress without any transfer completed "
            "is a stall: the times above do not show it, for they count completed transfers alone.",
            runbooks=("PDWatchKvStalled",),
        ),
        Query(own.now("pool_requests_kv_fetch"), "{{stage}}: {{pool}} {{deployment}}"),
    )
    deferred = lines(
        About("Put off until their KV comes", "Requests that decode has accepted and cannot start yet."),
        Query(own.now("pool_requests_waiting_by_reason", reason="deferred"), POOL),
    )
    recomputed = lines(
        About(
            "Prompt tokens that decode computed itself",
            "KV that was not used: transfers that failed and were made up for in silence.",
            empty=NOTHING,
            runbooks=("PDWatchLocalRecompute",),
        ),
        Query(own.rate("recomputed_tokens_total"), POOL),
    )
    kv = lines(
        About(
            "KV cache in use, fullest engine",
            "Prefill full and decode full: decode is short. Prefill full and decode empty: nobody collects.",
            unit="percentunit",
            runbooks=("PDWatchKvPinned",),
        ),
        Query(own.now("pool_kv_usage_max_ratio"), POOL),
        most=1,
        thresholds=FULL,
    )
    return [Place(stages), Place(deferred), Place(recomputed), Place(kv)]
