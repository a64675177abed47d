"""Does speculative decoding still work? In: a decoding pool. Out: recorded acceptance, and rules on its loss.

Only windows with enough drafts are judged, padding left out. No drafts is no rate, and neither fires nor clears.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.config import Pool
from agent.export.rules.drafts import draft_recordings, recorded
from agent.export.rules.identity import Identity
from agent.export.rules.model import Rule
from agent.export.rules.promql import all_of, number, span
from agent.export.rules.thresholds import (
    BASELINE_AWAY_SECONDS,
    BASELINE_SECONDS,
    COLLAPSED_TO,
    LEAST_DRAFTS,
    WINDOW_SECONDS,
    WORTH_HAVING_LENGTH,
)
from agent.export.rules.vllm_source import VllmSource
from agent.export.rules.watch import watch_alert


def drafting_rules(source: VllmSource, identity: Identity, pool: Pool) -> Iterator[Rule]:
    """All rules of one pool on its drafts; none on prefill, which drafts nothing."""
    if pool.role == "prefill":
        return
    yield from draft_recordings(source, identity, pool, WINDOW_SECONDS)
    yield from draft_recordings(source, identity, pool, BASELINE_SECONDS)
    drafts = recorded(source, "drafts:increase", pool.name, WINDOW_SECONDS)
    enough = f"{drafts} >= {LEAST_DRAFTS}"
    yield watch_alert(
        identity,
        "speculation_ineffective",
        pool.name,
        all_of(f"{recorded(source, 'accepted_tokens:increase', pool.name, WINDOW_SECONDS)} == 0", enough),
        description=f"Pool {pool.name} drafted {LEAST_DRAFTS} times or more in the last {span(WINDOW_SECONDS)} and not "
        "one token was accepted: speculation is pure overhead now.",
        cause="Possible: draft KV that is not handed over, a drafter that does not fit the model, long prompts.",
        says=f"fires when {LEAST_DRAFTS} or more drafts in 5m were all rejected, held for 5m",
    )
    length = recorded(source, "acceptance_length:tokens", pool.name, WINDOW_SECONDS)
    before, drafts_before = (
        recorded(source, name, pool.name, BASELINE_SECONDS, BASELINE_AWAY_SECONDS)
        for name in ("acceptance_length:tokens", "drafts:increase")
    )
    yield watch_alert(
        identity,
        "speculation_collapsed",
        pool.name,
        all_of(
            f"{length} < 1 + {number(COLLAPSED_TO)} * ({before} - 1)",
            f"{length} > 1",
            f"{before} >= {number(WORTH_HAVING_LENGTH)}",
            f"{drafts_before} >= {LEAST_DRAFTS}",
            enough,
        ),
        description=f"The acceptance length of pool {pool.name} is %value% tokens per step, less than half of what "
        "drafting gained in its own hour before.",
        cause="Possible: other prompts, a change of model, drafter or sampling, draft KV that is not handed over.",
        says="fires when drafts gain under half of what they gained in the hour until 15m ago, held for 5m",
    )
