"""Speculative decoding on vLLM's pages, padded drafts taken out. In: a decode pool and a window. Out: recording rules.

The first decode step after a KV transfer is padded with drafts that can only be rejected. Per engine they are drafts
minus steps (each step records one inter-token latency), never more than the first tokens of the window.
"""

from __future__ import annotations

from agent.config import Pool
from agent.export.rules.identity import Identity
from agent.export.rules.model import Recording
from agent.export.rules.promql import span
from agent.export.rules.vllm_source import VllmSource


def draft_recordings(source: VllmSource, identity: Identity, pool: Pool, window_seconds: float) -> list[Recording]:
    """Drafts without padding, tokens accepted, acceptance ratio and length of one pool over one window."""
    pools, w = (pool.name,), span(window_seconds)
    labels = identity.deployment | {"pool": pool.name}
    of_pool = source.selector(pools)

    def engines(metric: str) -> str:
        return f"sum by (target, engine) ({source.increase(metric, pools, window_seconds)})"

    drafts = f"sum({source.increase('spec_drafts', pools, window_seconds)})"
    depth = f"count(count by (position) ({source.names('spec_accepted_by_position')[0]}{of_pool}))"
    padded = f"engine:vllm_spec_padded_drafts:increase{w}"
    real = f"pool:vllm_spec_drafts:increase{w}"
    accepted = f"pool:vllm_spec_accepted_tokens:increase{w}"
    found = []
    real_drafts, drafted = drafts, f"sum({source.increase('spec_draft_tokens', pools, window_seconds)})"
    if pool.role == "decode":
        surplus = f"engine:vllm_spec_surplus_drafts:increase{w}"
        first = engines("ttft_count")
        found = [
            Recording(surplus, f"clamp_min({engines('spec_drafts')}\n- {engines('itl_count')}, 0)", labels),
            Recording(
                padded,
                f"({surplus}{of_pool} < on (target, engine) {first})\nor on (target, engine) {first}\n"
                f"and on (target, engine) {surplus}{of_pool}",
                labels,
            ),
        ]
        real_drafts = f"{drafts} - on () sum({padded}{of_pool})"
        drafted = f"{drafted} - on () {depth} * on () sum({padded}{of_pool})"
    length = f"1 + {accepted}{of_pool} / ({real}{of_pool} > 0)"
    ratio = f"clamp_max({accepted}{of_pool} / on () (({drafted}) > 0), 1)"
    return [
        *found,
        Recording(real, real_drafts, labels),
        Recording(accepted, f"sum({source.increase('spec_accepted_tokens', pools, window_seconds)})", labels),
        Recording(f"pool:vllm_spec_acceptance:ratio{w}", ratio, labels),
        Recording(f"pool:vllm_spec_acceptance_length:tokens{w}", length, labels),
    ]


def recorded(source: VllmSource, name: str, pool: str, window_seconds: float, ago_seconds: float = 0) -> str:
    """What was recorded of one pool, without its labels: `drafts:increase`, `acceptance_length:tokens`."""
    series = f"pool:vllm_spec_{name}{span(window_seconds)}{source.selector((pool,))}"
    return f"sum({series} offset {span(ago_seconds)})" if ago_seconds else f"sum({series})"
