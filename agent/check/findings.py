"""What `pdwatch check` can say. In: nothing. Out: `Finding`, and the list of all codes with their meaning.

Every code is explained in docs/check.md; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Level = Literal["error", "warning", "info"]
LEVELS: tuple[Level, ...] = ("error", "warning", "info")

CODES: Mapping[str, str] = MappingProxyType(
    {
        # the configuration alone
        "configuration": "the configuration cannot be used",
        "unknown_variable": "an environment variable PDWATCH_... sets nothing",
        "deployment_missing": "rules page, and their alerts name no deployment",
        "wired_twice": "Prometheus' rules are to page, yet receivers for direct paging are configured",
        "nobody_paged": "no receiver is configured: verdicts are shown, nobody is called",
        "file_unreadable": "a secret or certificate file cannot be read",
        "secret_over_http": "a secret is sent over plain http to another host",
        "tls_not_verified": "certificates are not verified",
        "pool_missing": "one of the two roles has no pool",
        "gpus_unknown": "GPUs per target are not configured",
        "history_not_kept": "long windows begin anew with every restart of pdwatch",
        "objective_not_applicable": "an objective can never be judged in its pool",
        "percentile_not_composable": "a percentile of the user's TTFT cannot be made of two legs",
        "window_few_scrapes": "a window holds fewer than four scrapes",
        # what discovery finds, and what is beside the targets
        "discovery_found": "the targets that discovery found for a pool",
        "discovery_failed": "a source of targets cannot be used, or lists what cannot",
        "pool_empty": "discovery finds no target for a pool",
        "sidecar_silent": "the pdwatch beside a target gives no reading of its processes",
        # what the targets answer
        "unreachable": "a target gave no page",
        "not_vllm": "a page that is not vLLM's",
        "not_router": "a router's page without the metrics of its kind",
        "unusable_page": "a page, or some of its series, cannot be used",
        "inconsistent_source": "counters fell between two pages of one target",
        "same_process": "two targets are one server",
        "multiprocess_page": "a page that several API servers share",
        "metric_missing": "a metric that pdwatch needs is not on the page",
        "newer_vllm_shows": "metrics that a newer vLLM would add",
        "ttft_without_tokenizing": "this vLLM's TTFT begins after tokenizing",
        "slow_page": "fetching a page takes a large part of the interval",
        "large_page": "a page is near the configured limit",
        # what pages say together
        "engine_missing": "a page leaves out an engine between its first and last",
        "engines_differ": "targets of one pool have different numbers of engines",
        "models_differ": "targets serve different models",
        "versions_differ": "targets run different versions of vLLM",
        "mixed_buckets": "targets of one pool have different bucket edges",
        "kv_capacity_short": "an engine's KV cache holds fewer tokens than the longest promised prompt",
        "contract_not_on_bucket": "the promised prompt lengths lie between bucket edges",
        "role_mismatch": "the traffic contradicts a pool's role",
        # objectives against pages and traffic
        "target_not_on_bucket": "an objective's target lies between bucket edges",
        "custom_buckets": "the vLLM flag that gives targets an edge of their own",
        "rate_unknown": "no request was seen, so windows and precision cannot be judged",
        "window_too_short": "a window holds fewer requests than its objective asks for",
        # receivers, with --send-test
        "test_page": "what a receiver answered to the test page",
    }
)
"""Code -> what it means, in a phrase."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (error), weak (warning) or good to know (info), and what to do about it.

    `where`: key paths of the configuration, or names of targets, pools and objectives.
    """

    code: str
    level: Level
    where: tuple[str, ...]
    text: str
    help: str = ""

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not a listed code")


def gathered(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that say the same of several places become one; errors first, otherwise in the order they came."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.level, finding.text, finding.help)
        known = found.get(key)
        if known is None:
            found[key] = finding
        else:
            more = tuple(place for place in finding.where if place not in known.where)
            found[key] = replace(known, where=known.where + more)
    return sorted(found.values(), key=lambda finding: LEVELS.index(finding.level))


def exit_code(findings: Iterable[Finding]) -> int:
    """0 clean (notes alone are clean), 1 warnings, 2 errors."""
    levels = {finding.level for finding in findings}
    return 2 if "error" in levels else 1 if "warning" in levels else 0
