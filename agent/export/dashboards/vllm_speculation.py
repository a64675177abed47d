"""Board "Speculation" without pdwatch. In: the configuration. Out: a board."""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.frame import VLLM_TAG, Board
from agent.export.dashboards.layout import Place, Row
from agent.export.dashboards.panels import About, Query, lines, numbers
from agent.export.dashboards.prefill import POOL
from agent.export.dashboards.speculation import COLLAPSED, NO_DRAFTS, POSITION
from agent.export.dashboards.vllm_events import vllm_events
from agent.export.dashboards.vllm_judged import promised_lines
from agent.export.dashboards.vllm_queries import BY_POOL, VLLM_DEPLOYMENT, Vllm, pools

LENGTH, RATIO = "pool:vllm_spec_acceptance_length:tokens", "pool:vllm_spec_acceptance:ratio"


def vllm_speculation(config: Config) -> Board:
    """For sites without pdwatch."""
    vllm = Vllm(config, "decode")
    return Board(
        word="vllm-speculation",
        title="pdwatch rules / Speculation",
        description="Does speculative decoding still pay? From vLLM's own metrics and the recording rules.",
        tag=VLLM_TAG,
        variables=[VLLM_DEPLOYMENT, pools("decode", "decode", "both")],
        events=vllm_events(),
        rows=[Row("Does it pay?", _pays(config, vllm)), Row("By position", _positions(vllm))],
        runbooks=config.links.runbooks or "",
    )


def _pays(config: Config, vllm: Vllm) -> list[Place]:
    tile = numbers(
        About("Tokens per step", "1 is what plain decoding makes.", empty=NO_DRAFTS, decimals=2),
        Query(vllm.recorded(f"{LENGTH}5m"), POOL),
    )
    length = lines(
        About(
            "Tokens per step, and over the hour",
            "Padding of the first step after a transfer is left out by the rules. Five minutes that fall away from the "
            "hour by half are a collapse; both falling slowly is other prompts.",
            empty=NO_DRAFTS,
            decimals=2,
            runbooks=COLLAPSED,
        ),
        Query(vllm.recorded(f"{LENGTH}5m"), f"5 minutes: {POOL}"),
        Query(vllm.recorded(f"{LENGTH}1h"), f"1 hour: {POOL}"),
        *promised_lines(config, ["acceptance_length"], system=False),
        least=1,
    )
    ratio = lines(
        About(
            "Accepted of all draft tokens",
            "No line means no drafts, which is not the same as none accepted.",
            unit="percentunit",
            empty=NO_DRAFTS,
        ),
        Query(vllm.recorded(f"{RATIO}5m"), f"5 minutes: {POOL}"),
        Query(vllm.recorded(f"{RATIO}1h"), f"1 hour: {POOL}"),
        most=1,
    )
    return [Place(tile, 4), Place(length, 10), Place(ratio, 10)]


def _positions(vllm: Vllm) -> list[Place]:
    accepted = vllm.rate("spec_accepted_by_position", (*BY_POOL, "position"))
    share = lines(
        About(
            "Accepted at each position",
            "Of all steps with drafts, padded ones included, so it reads a little low where answers are short.",
            unit="percentunit",
            empty=NO_DRAFTS,
            runbooks=COLLAPSED,
        ),
        Query(f"{accepted} / on (deployment, pool) group_left () ({vllm.rate('spec_drafts')} > 0)", POSITION),
        most=1,
    )
    counts = lines(
        About("Draft and accepted tokens per second", "Work spent, and work that was of use.", empty=NO_DRAFTS),
        Query(vllm.rate("spec_draft_tokens"), f"drafted: {POOL}"),
        Query(vllm.rate("spec_accepted_tokens"), f"accepted: {POOL}"),
    )
    return [Place(share), Place(counts)]
