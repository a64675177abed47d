"""What happened beside the curves: alerts that fire, servers that restarted, deployments. Out: annotations.

A deployment is what can be seen of one: several servers of a pool that restarted, a pool whose size changed, another
version of pdwatch.
"""

from __future__ import annotations

from agent.export.dashboards.frame import Event
from agent.export.dashboards.queries import Own

ALERTS = 'ALERTS{alertname=~"PDWatch.+",alertstate="firing",severity=~"critical|warning",deployment=~"$deployment"}'
LARGEST_POOL_CHANGE = "10m"


def firing() -> Event:
    """Alerts of the generated rules, whichever family is loaded."""
    expr = f"max by (deployment, alertname, scope, objective, code, target, severity) ({ALERTS})"
    text = "{{severity}}: {{objective}}{{code}} of {{scope}} {{target}}"
    return Event("Alerts that fire", expr, "{{alertname}}", text, "severity,scope", "red")


def own_events() -> list[Event]:
    """On pdwatch's metrics."""
    own = Own()
    restarted = own.now("problem", ("scope", "target"), code="restarted")
    many = f"count by (deployment, scope) ({restarted}) >= 2"
    size = "count by (deployment, pool) (" + own.now("target_up") + ")"
    before = "count by (deployment, pool) (max by (deployment, pool, target) "
    before += f"({own.series('target_up')} offset {LARGEST_POOL_CHANGE}))"
    resized = f'label_replace({size} != {before}, "scope", "$1", "pool", "(.+)")'
    versions = f"count by (deployment) (count by (deployment, version) ({own.series('build_info')})) > 1"
    return [
        firing(),
        Event(
            "Restarts",
            restarted,
            "Restarted: {{target}}",
            "Server {{target}} of {{scope}} began anew.",
            "scope",
            "blue",
        ),
        Event(
            "Deployments",
            f"{many}\nor\n{resized}\nor\n{versions}",
            "Deployment {{scope}}",
            "Several servers restarted, the pool changed its size, or pdwatch changed its version.",
            "scope",
            "purple",
        ),
    ]
