"""Board "Speculation": does drafting still pay, position by position. In: the configuration. Out: a board.

Acceptance per draft token, per position and tokens per step are three numbers, not one: each has a panel of its own.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.events import own_events
from agent.export.dashboards.frame import OWN_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.panels import About, Query, lines, numbers
from agent.export.dashboards.prefill import ENGINE, POOL
from agent.export.dashboards.promises import edges, target_lines
from agent.export.dashboards.queries import Own
from agent.export.dashboards.variables import DECODE, DEPLOYMENT

NO_DRAFTS = "No drafts"
POSITION = "position {{position}}: {{pool}} {{deployment}}"
COLLAPSED = ("PDWatchSpeculationCollapsed", "PDWatchSpeculationIneffective", "PDWatchSpeculationNotPaying")


def speculation_board(config: Config) -> Board:
    """Acceptance, by position and against what it was."""
    own = Own(pool="decode")
    return Board(
        word="speculation",
        title="pdwatch / Speculation",
        description="Does speculative decoding still pay, and at which position is it lost?",
        tag=OWN_TAG,
        variables=[DEPLOYMENT, DECODE],
        events=own_events(),
        rows=[
            Row("Does it pay?", _pays(config, own)),
            Row("By position", _positions(own)),
            Row("Drafts", _drafts(own)),
        ],
        runbooks=config.links.runbooks or "",
    )


def _pays(config: Config, own: Own) -> list[Place]:
    length = own.now("pool_acceptance_length_tokens")
    tile = numbers(
        About(
            "Tokens per step", "1 is what plain decoding makes. What is above 1 is gained.", empty=NO_DRAFTS, decimals=2
        ),
        Query(length, POOL),
        thresholds=edges(config, ["acceptance_length"], system=False),
    )
    before = f"avg_over_time({own.series('pool_acceptance_length_tokens')}[1h] offset 15m)"
    against = lines(
        About(
            "Tokens per step, and what they were",
            "Against the mean of the hour that ended 15 minutes earlier. A drop of both by half within minutes is a "
            "collapse (drafter broken, draft KV not handed over); a slow drift is other prompts.",
            empty=NO_DRAFTS,
            decimals=2,
            runbooks=COLLAPSED,
        ),
        Query(length, f"now: {POOL}"),
        Query(f"max by (deployment, pool) ({before})", f"the hour before: {POOL}"),
        *target_lines(config, own, ["acceptance_length"], system=False),
        least=1,
    )
    tpot = own.now("pool_tpot_token_mean_seconds")
    saved = lines(
        About(
            "Time per token, and one step",
            "A step without drafts takes about as long as one with them, or less: while time per token is well below "
            "the step time, drafting pays. Lines that meet mean that it gains nothing.",
            unit="s",
            empty=NO_DRAFTS,
            boards={"decode": "steps and load"},
        ),
        Query(tpot, f"time per token: {POOL}"),
        Query(own.now("pool_itl_mean_seconds"), f"one step: {POOL}"),
    )
    return [Place(tile, 4, 8), Place(against, 10, 8), Place(saved, 10, 8)]


def _positions(own: Own) -> list[Place]:
    share = lines(
        About(
            "Accepted at each position",
            "Share of steps that accepted the draft at this position. It can only fall from one position to the next.",
            unit="percentunit",
            empty=NO_DRAFTS,
            runbooks=COLLAPSED,
        ),
        Query(own.now("pool_acceptance_by_position_ratio"), POSITION),
        most=1,
    )
    conditional = lines(
        About(
            "Accepted, once those before were",
            "The drafter's quality at each position by itself. One position that is low while its neighbours are not: "
            "that position's weights or hidden state are wrong. A last position that is low: draft fewer tokens.",
            unit="percentunit",
            empty=NO_DRAFTS,
        ),
        Query(own.now("pool_conditional_acceptance_ratio"), POSITION),
        most=1,
    )
    tokens = lines(
        About("Accepted tokens per second, by position", "What each position adds to the output.", empty=NO_DRAFTS),
        Query(own.rate("accepted_tokens_by_position_total"), POSITION),
    )
    engines = lines(
        About(
            "Tokens per step by engine",
            "One engine apart from the others has other traffic, or a fault of its own.",
            empty=NO_DRAFTS,
            decimals=2,
        ),
        Query(own.now("engine_acceptance_length_tokens"), ENGINE),
    )
    return [Place(share), Place(conditional), Place(tokens), Place(engines)]


def _drafts(own: Own) -> list[Place]:
    ratio = lines(
        About(
            "Accepted of all draft tokens",
            "Padding left out. No line means no drafts, which is not the same as none accepted.",
            unit="percentunit",
            empty=NO_DRAFTS,
        ),
        Query(own.now("pool_acceptance_ratio"), POOL),
        most=1,
    )
    counts = lines(
        About(
            "Draft and accepted tokens per second",
            "Raw counts, padding included: work spent, and work that was of use.",
            empty=NO_DRAFTS,
        ),
        Query(own.rate("draft_tokens_total"), f"drafted: {POOL}"),
        Query(own.rate("accepted_tokens_total"), f"accepted: {POOL}"),
    )
    padded = lines(
        About(
            "Drafts that only padded",
            "The first step after a KV transfer is padded with drafts that can only be rejected. The rates above leave "
            "them out; a naive accepted / drafted does not, and reads too low where answers are short.",
            unit="percentunit",
            empty=NO_DRAFTS,
        ),
        Query(f"{own.rate('padded_drafts_total')} / ({own.rate('drafts_total')} > 0)", POOL),
    )
    return [Place(ratio, 8), Place(counts, 8), Place(padded, 8)]
