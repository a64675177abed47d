"""What the traffic itself shows to be wrong: pools' facts come in, problems with their numbers go out.

Counts that rose in the window (expired KV, failed transfers, local recompute, errors, legs that do not match) and
a pool whose traffic contradicts its configured role. Each stands while it stands in the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.indicators.outcomes import finished
from agent.indicators.pools import PoolFacts
from agent.model import Problem
from agent.state import Legs
from agent.verdicts.lost_legs import lost_legs
from agent.verdicts.wording import percent, plural

LEAST_REQUESTS = 10
"""Fewer finished requests than this decide nothing about a role."""
ONE_TOKEN_SHARE = 0.99
ERROR_SHARE = 0.01


def traffic_problems(pools: Sequence[PoolFacts], legs: Legs | None, since: float) -> list[Problem]:
    """`since`: where the window begins; a problem of the window is said to stand since then."""
    found: list[Problem] = []
    for pool in pools:
        found.extend(_kv(pool, pools, since))
        found.extend(_errors(pool, since))
        found.extend(_role(pool, since))
    found.extend(lost_legs(pools, legs, since))
    return found


def _kv(pool: PoolFacts, pools: Sequence[PoolFacts], since: float) -> Iterable[Problem]:
    total = pool.total
    expired = total.count("kv_expired")
    if expired:
        served = sum(finished(p.total) or 0.0 for p in pools if p.role == "decode") or finished(total) or 0.0
        of = plural(round(served), "finished request")
        share = f", {percent(expired / served)} of {of}" if expired <= served else f", beside {of}" if served else ""
        text = (
            f"{plural(round(expired), 'KV lease')} ran out on pool {pool.name} before decode had read it{share}; "
            "the answers may be wrong though they count as successes"
        )
        evidence = {
            "expired": expired,
            "finished": served,
            "share": expired / served if 0 < expired <= served else None,
        }
        yield Problem("kv_expired", "", since, text, pool=pool.name, evidence=evidence)
    failed = total.count("kv_failed_transfers")
    if failed:
        text = f"{plural(round(failed), 'KV transfer')} failed on pool {pool.name}"
        yield Problem("transfer_failures", "", since, text, pool=pool.name, evidence={"failed": failed})
    local = total.count("prompt_tokens_by_source", "local_compute") if pool.role == "decode" else None
    if local:
        whole = total.count("prompt_tokens") or local
        text = (
            f"decode pool {pool.name} computed {round(local)} prompt tokens itself ({percent(local / whole)}): "
            "KV did not come from prefill"
        )
        yield Problem("local_recompute", "", since, text, pool=pool.name, evidence={"tokens": local})


def _errors(pool: PoolFacts, since: float) -> Iterable[Problem]:
    total, done = pool.total, finished(pool.total)
    failed = total.count("requests_finished", "error") or 0.0
    server = total.count("http_requests", "5xx") or 0.0
    refused = sum(total.labels("admission_rejections").values())
    bad = failed + max(server, refused)
    seen = (done or 0.0) + max(server, refused)
    if bad and seen >= LEAST_REQUESTS and bad / seen > ERROR_SHARE:
        text = (
            f"{percent(bad / seen)} of {round(seen)} requests of pool {pool.name} went wrong "
            f"(reason error {round(failed)}, 5xx {round(server)}, refused {round(refused)})"
        )
        evidence = {"share": bad / seen, "error": failed, "5xx": server, "admission_rejected": refused}
        yield Problem("errors_high", "", since, text, "critical", pool=pool.name, evidence=evidence)


def _role(pool: PoolFacts, since: float) -> Iterable[Problem]:
    total, done = pool.total, finished(pool.total) or 0.0
    lengths = total.histograms.get("generation_tokens")
    if pool.role == "decode" and lengths is not None and lengths.count >= LEAST_REQUESTS:
        single = lengths.count_at_or_below(1.0) or 0.0
        if single >= ONE_TOKEN_SHARE * lengths.count:
            text = f"all requests of decode pool {pool.name} had one token, as prefill legs have: is its role right?"
            yield Problem("role_mismatch", "", since, text, pool=pool.name)
    fetched = total.count("prompt_tokens_by_source", "external_kv_transfer") or 0.0
    if pool.role == "prefill" and done >= LEAST_REQUESTS:
        prompts = total.count("prompt_tokens") or 0.0
        steps = total.histograms.get("itl")
        if fetched > 0.5 * prompts > 0:
            text = f"prefill pool {pool.name} takes its prompts' KV from elsewhere, as decode does: is its role right?"
            yield Problem("role_mismatch", "", since, text, pool=pool.name)
        elif steps is not None and steps.count > done:
            text = f"requests of prefill pool {pool.name} go on after their first token: is its role right?"
            yield Problem("role_mismatch", "", since, text, pool=pool.name)
