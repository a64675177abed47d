"""Events beside the curves where no pdwatch runs. In: vLLM's own series. Out: annotations."""

from __future__ import annotations

from agent.export.dashboards.events import LARGEST_POOL_CHANGE, firing
from agent.export.dashboards.frame import Event

_UP = 'up{deployment=~"$deployment",role=~"prefill|decode|both"}'
_STARTED = 'process_start_time_seconds{deployment=~"$deployment",role=~"prefill|decode|both"}'


def vllm_events() -> list[Event]:
    """Restarts are seen on servers that have one process for their pages; of the others a minute without a page is."""
    began = f"changes({_STARTED}[2m]) > 0"
    away = f"max_over_time({_UP}[1m] offset 15s) == 0 and count_over_time({_UP}[1m] offset 15s) >= 4"
    back = f"{_UP} == 1 and {away}"
    restarts = f"max by (deployment, pool, target) ({began})\nor\nmax by (deployment, pool, target) ({back})"
    many = f"count by (deployment, pool) (max by (deployment, pool, target) (changes({_STARTED}[15m]) > 0)) >= 2"
    size = f"count by (deployment, pool) ({_UP}) != count by (deployment, pool) ({_UP} offset {LARGEST_POOL_CHANGE})"
    return [
        firing(),
        Event(
            "Restarts", restarts, "Restarted: {{target}}", "Server {{target}} of {{pool}} began anew.", "pool", "blue"
        ),
        Event(
            "Deployments",
            f"{many}\nor\n{size}",
            "Deployment {{pool}}",
            "Several servers restarted, or the pool changed its size.",
            "pool",
            "purple",
        ),
    ]
