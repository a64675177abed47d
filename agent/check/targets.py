"""What each target's own pages show. In: seen targets. Out: findings about one target each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from agent.check.findings import Finding, Level
from agent.check.flags import ONE_API_SERVER, is_at_least, short
from agent.check.seen import SeenPool, SeenTarget, kv_capacity_tokens
from agent.config import Config, duration_text
from agent.model import FailureObservation, PageObservation
from agent.reading.names import NAMES, Name, missing
from agent.reading.router_names import ROUTERS
from agent.reading.series import is_rank
from agent.verdicts.data import NEEDED_METRICS, OPTIONAL_SEVERITY_METRICS

SLOW_SHARE = 0.1
"""Rendering a page takes the server's own thread: more than this share of the interval is felt."""
LARGE_SHARE = 0.5
SHOWN_PROBLEMS = 3
OLDEST = "0.9.2"
"""The oldest vLLM whose names are known: what it had, every server has."""
TTFT_WITH_TOKENIZING_SINCE = "0.20.0"

_HELP: Mapping[str, str] = MappingProxyType(
    {
        "refused": "is the server up, and is this its port?",
        "timeout": "is the server overloaded, or a firewall in between? scrape.timeout bounds one page",
        "dns": "check the name",
        "no_route": "check the address and the network in between",
        "reset": "does the port speak http, and is the server being restarted?",
        "tls": "check the scheme (http or https), ca_file and the certificate's names",
        "access": "check the file under the pool's auth or tls",
        "http_401": "give a token or a user under the pool's auth",
        "http_403": "give a token or a user with the right to read metrics under the pool's auth",
        "http_404": "is the path /metrics?",
        "http_503": "the server is starting or being scaled; ask again later",
        "too_large": "is this the right page? scrape.max_page_bytes allows more",
        "redirect": "configure the final address",
        "not_http": "does the port speak http?",
    }
)
_ROUTER_MARKS: Mapping[str, tuple[str, ...]] = MappingProxyType({kind: page.marks for kind, page in ROUTERS.items()})
_SINCE: Mapping[str, Name] = MappingProxyType({name.key: name for name in NAMES})


def target_findings(config: Config, pool: SeenPool, target: SeenTarget) -> Iterator[Finding]:
    """Everything that one target's answers show by themselves."""
    yield from _fetching(target)
    latest = target.latest
    if latest is None:
        return
    for problem in latest.problems[:SHOWN_PROBLEMS]:
        yield Finding(
            "unusable_page", "warning", (target.name,), problem.text, "its numbers are left out; see the page"
        )
    if target.between is not None and target.between.inconsistent:
        help_ = "give the address of every server by itself, not of a balancer in front of them"
        yield Finding("inconsistent_source", "warning", (target.name,), target.between.inconsistent, help_)
    yield from _engines(target)
    yield from _multiprocess(target)
    yield from _metrics(pool, target)
    yield from _cost(config, target)
    yield from _capacity(config, target)


def router_findings(config: Config, answers: Mapping[str, SeenTarget]) -> Iterator[Finding]:
    """The router's targets: whether they answer, and with the metrics of the configured kind."""
    router = config.router
    for target in router.targets if router else ():
        seen = answers.get(target.name)
        if router is None or seen is None:
            continue
        yield from _unreachable(seen)
        pages = [one.page for one in seen.answer.observations if isinstance(one, PageObservation)]
        marks = _ROUTER_MARKS.get(router.kind) or tuple(mark for marks in _ROUTER_MARKS.values() for mark in marks)
        if router.prefix:
            marks = (*marks, router.prefix)
        if pages and not any(config.prefix + mark in pages[-1] or mark in pages[-1] for mark in marks):
            text = (
                f"no metric of a {router.kind} router ({', '.join(mark + '...' for mark in marks[:2])}) is on the page"
            )
            yield Finding("not_router", "warning", (target.name,), text, "check router.kind and the address")


def _fetching(target: SeenTarget) -> Iterator[Finding]:
    yield from _unreachable(target)
    if target.refused is not None:
        level: Level = "warning" if target.readings else "error"
        code = "not_vllm" if target.not_vllm else "unusable_page"
        yield Finding(code, level, (target.name,), str(target.refused))


def _unreachable(target: SeenTarget) -> Iterator[Finding]:
    failures = target.failures
    if not failures:
        return
    last: FailureObservation = failures[-1]
    help_ = _HELP.get(last.error, "see the words of the error")
    said = f"{last.error}: {last.text}" if last.text else last.error
    if len(failures) == len(target.answer.observations):
        yield Finding("unreachable", "error", (target.name,), said, help_)
    else:
        tries = len(target.answer.observations)
        yield Finding(
            "unreachable", "warning", (target.name,), f"{len(failures)} of {tries} fetches failed, {said}", help_
        )


def _engines(target: SeenTarget) -> Iterator[Finding]:
    engines = target.latest.layout.engines if target.latest else ()
    ranks = sorted(int(engine) for engine in engines if is_rank(engine))
    gaps = sorted(set(range(ranks[0], ranks[-1])) - set(ranks)) if ranks and ranks[-1] - ranks[0] < 4096 else []
    if gaps:
        text = f"the page has engines {ranks[0]} to {ranks[-1]}, but not {', '.join(map(str, gaps[:8]))}"
        help_ = "did a rank die, or was the server scaled down? its requests are not in the sums"
        yield Finding("engine_missing", "warning", (target.name,), text, help_)


def _multiprocess(target: SeenTarget) -> Iterator[Finding]:
    latest = target.latest
    if latest is None or not latest.layout.multiprocess:
        return
    text = (
        "several API servers share this page: it has no process metrics (a restart is told by counts that fall, the "
        "API servers' memory only by pdwatch beside them), and gauges of an engine appear with its first step"
    )
    if len(latest.layout.engines) < 2:
        text += (
            "; with one engine, PROMETHEUS_MULTIPROC_DIR may be set by hand: its files survive restarts, so counts mix"
        )
    help_ = f"nothing has to be done; {ONE_API_SERVER} gives a page of one process, where one can carry the traffic"
    yield Finding("multiprocess_page", "info", (target.name,), text, help_)


def _metrics(pool: SeenPool, target: SeenTarget) -> Iterator[Finding]:
    if target.latest is None:
        return
    version = target.answer.version
    needed = NEEDED_METRICS.get(pool.role, {})
    present = target.latest.layout.names
    for metric, cost in needed.items():
        if metric not in present:
            level: Level = "info" if metric in OPTIONAL_SEVERITY_METRICS else "warning"
            text = f"no {metric} on the page: {cost}"
            yield Finding("metric_missing", level, (target.name,), text, _missing_help(metric, version))
    newer = [
        name
        for name in missing(present)
        if name.key not in needed and is_at_least(version, name.since) is False and name.vllm
    ]
    if newer:
        said = "; ".join(f"{name.loses} ({short(name.since)})" for name in newer)
        text = f"vLLM {version} does not show: {said}"
        yield Finding("newer_vllm_shows", "info", (target.name,), text, "the version that has each stands behind it")
    if is_at_least(version, TTFT_WITH_TOKENIZING_SINCE) is False:
        text = f"TTFT of vLLM {version} begins after the prompt was tokenized: users wait longer for long prompts"
        yield Finding("ttft_without_tokenizing", "info", (target.name,), text, "vLLM 0.20 and later count it in")


def _missing_help(metric: str, version: str | None) -> str:
    name = _SINCE[metric]
    since = f"vLLM {short(name.since)} and later have it"
    if "kv_" in metric and name.aliases[0].startswith("nixl_"):
        since += ", with a NIXL connector (Mooncake, LMCache and others show no such metric)"
    if is_at_least(version, name.since) is False:
        return f"{since}; this is {version}"
    if is_at_least(version, name.since) or name.since == OLDEST:
        return f"{since}: does something in between drop or rename it (configure prefix)?"
    return since


def _cost(config: Config, target: SeenTarget) -> Iterator[Finding]:
    latest, took, interval = target.latest, target.took_seconds, config.scrape.interval_seconds
    if took is not None and took > SLOW_SHARE * interval:
        text = f"a page takes more than {SLOW_SHARE:.0%} of the interval of {duration_text(interval)} to fetch"
        help_ = (
            "rendering holds the API server's own thread meanwhile: lengthen scrape.interval, let nobody else "
            "scrape it, and look at the network and the server's load"
        )
        yield Finding("slow_page", "warning", (target.name,), text, help_)
    limit = config.scrape.max_page_bytes
    if latest is not None and latest.page_bytes > LARGE_SHARE * limit:
        share = latest.page_bytes / limit
        text = f"the page has {latest.page_bytes / 2**20:.1f} MiB, {share:.0%} of scrape.max_page_bytes"
        yield Finding("large_page", "warning", (target.name,), text, "raise scrape.max_page_bytes before it is reached")


def _capacity(config: Config, target: SeenTarget) -> Iterator[Finding]:
    longest = config.contract.prompt_tokens[1]
    capacities = kv_capacity_tokens(target.latest) if target.latest else {}
    if capacities and min(capacities.values()) < longest:
        least = min(capacities.values())
        text = f"one engine's KV cache holds {least} tokens, fewer than the longest promised prompt ({longest})"
        help_ = "such prompts are refused here; correct contract.prompt_tokens, or give the server more KV memory"
        yield Finding("kv_capacity_short", "warning", (target.name,), text, help_)
