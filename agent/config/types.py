"""The whole configuration as one frozen value. In: nodes. Out: `Config`, which every room may read and none
may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.config.access import URL
from agent.config.alerting import Alerting
from agent.config.fields import (
    FLAG,
    PATH,
    TEXT,
    Contradiction,
    Kind,
    choice,
    duration,
    integer,
    list_of,
    number,
    section,
    setting,
    size,
)
from agent.config.listening import DEFAULT_LISTEN, LISTEN, ListenTls
from agent.config.node import Node
from agent.config.objectives import Objective, default_objectives, read_objective
from agent.config.otlp import Otlp
from agent.config.pools import METRIC_PREFIX, Pool, Router, read_pools
from agent.config.speculation import Speculation
from agent.config.tracing import TRACE_LINK, Traces


def _read_token_range(node: Node) -> tuple[int, int]:
    bounds = [integer(1).read(item) for item in node.items()]
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise node.error("must be two numbers, the shortest and the longest prompt: [16384, 262144]")
    return bounds[0], bounds[1]


@dataclass(frozen=True, slots=True)
class Scrape:
    """How often pages are fetched, how long one may take, and how large it may be (after decompression)."""

    interval_seconds: float = setting("interval", duration(0.2, 300), 5.0, "Time between two pages of one target")
    timeout_seconds: float = setting(
        "timeout",
        duration(0.05, 300),
        None,
        "Longest that one page may take, its body included; at most the interval",
        default_says="4s, or 0.8 of an interval below 5s",
    )
    max_page_bytes: int = setting("max_page_bytes", size(1024), 32 << 20, "A larger page is not read to its end")

    def __post_init__(self) -> None:
        if self.timeout_seconds is None:
            object.__setattr__(self, "timeout_seconds", min(4.0, 0.8 * self.interval_seconds))
        if self.timeout_seconds > self.interval_seconds:
            raise Contradiction("timeout", "is longer than the interval, and two scrapes of one target never overlap")


@dataclass(frozen=True, slots=True)
class Contract:
    """The contexts that the objectives promise for."""

    prompt_tokens: tuple[int, int] = setting(
        "prompt_tokens",
        Kind("[low, high]", _read_token_range, single=False, show=lambda value: str(list(value))),
        (16384, 262144),
        "Shortest and longest prompt",
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """When a growing process pages, and how closely it is looked at."""

    page_within_seconds: float = setting(
        "page_within", duration(), 7 * 86400.0, "A limit that will be exhausted within this time pages"
    )
    cache_budget_bytes: int | None = setting("cache_budget", size(0), None, "Bytes that known caches may fill")
    time_scale: float = setting(
        "time_scale",
        number(1 / 600, 1.0),
        1.0,
        "Multiplies every duration of the leak detector; below 1 it only serves demonstrations (1/60: 0.0167)",
    )
    mappings: bool = setting(
        "mappings",
        FLAG,
        False,
        "Also read a process's mappings, once after its warm-up and once when it leaks: that stalls it for 10 to 25 ms"
        " per GB, is left out above 8 GiB, and needs CAP_SYS_PTRACE for processes of other users",
    )
    evidence_command: tuple[str, ...] = setting(
        "evidence_command",
        list_of(TEXT.read, "list of words"),
        (),
        "Command to run when a process certainly leaks, at most once in its life: [py-spy, dump, --pid, '{pid}'];"
        " its output is kept in state_dir",
        secret=True,  # what is replaced in its words (`${NAME}`) may well be a token
    )
    evidence_timeout_seconds: float = setting(
        "evidence_timeout", duration(1, 600), 60.0, "The evidence command is ended after this"
    )


@dataclass(frozen=True, slots=True)
class Links:
    """Where the links on alerts lead."""

    runbooks: str | None = setting("runbooks", URL, None, "Base URL of the runbooks")
    dashboards: str | None = setting("dashboards", URL, None, "Base URL of the dashboards")
    traces: str | None = setting(
        "traces", TRACE_LINK, None, "Address of one trace in the trace backend, with {trace} (and {request}) in it"
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that was configured. `file`: where it came from, None without a file."""

    deployment: str | None = setting(
        "deployment",
        TEXT,
        None,
        "Name of this deployment on every alert and metric; required as soon as anything is paged",
    )
    mode: Literal["central", "sidecar"] = setting(
        "mode",
        choice("central", "sidecar"),
        "central",
        "`central`: pool verdicts and pages; `sidecar`: its own host's processes and target, no pool pages",
    )
    pools: tuple[Pool, ...] = setting(
        "pools",
        Kind("mapping by name", read_pools, section=Pool, many=".<name>", single=False, pairs=True),
        (),
        "The pools by name",
        default_says="required",
    )
    router: Router | None = setting("router", section(Router), None, "The router in front, or null")
    dispatch: Literal["serial", "concurrent"] = setting(
        "dispatch",
        choice("serial", "concurrent"),
        "serial",
        "How the proxy works: `serial` (prefill, then decode) or `concurrent`",
    )
    prefix: str = setting("prefix", METRIC_PREFIX, "", "What this deployment puts before vLLM's metric names")
    scrape: Scrape = setting("scrape", section(Scrape), Scrape(), "Fetching of pages")
    contract: Contract = setting("contract", section(Contract), Contract(), "What the objectives promise for")
    objectives: tuple[Objective, ...] = setting(
        "objectives",
        list_of(read_objective, "list of sections", Objective),
        None,
        "The promises",
        default_says="mean TTFT of the system 2.5s, mean TPOT 20ms in each pool that decodes",
    )
    memory: Memory = setting("memory", section(Memory), Memory(), "The watch over host memory")
    speculation: Speculation = setting(
        "speculation", section(Speculation), Speculation(), "What is known of speculative decoding"
    )
    alerting: Alerting = setting("alerting", section(Alerting), Alerting(), "Who is called")
    links: Links = setting("links", section(Links), Links(), "Links on alerts")
    traces: Traces = setting("traces", section(Traces), Traces(), "Spans that servers send")
    otlp: Otlp | None = setting("otlp", section(Otlp), None, "pdwatch's own metrics over OTLP; null: none are pushed")
    state_dir: str | None = setting("state_dir", PATH, None, "Folder where history survives a restart")
    listen: str = setting("listen", LISTEN, DEFAULT_LISTEN, "Where pdwatch's own pages are served")
    tls: ListenTls | None = setting(
        "tls", section(ListenTls), None, "Certificate of pdwatch's own listeners; null: they speak without TLS"
    )
    file: str | None = None

    def __post_init__(self) -> None:
        if self.objectives is None:
            object.__setattr__(self, "objectives", default_objectives(self.pools))

    def pool(self, name: str) -> Pool | None:
        """The pool of that name."""
        return next((pool for pool in self.pools if pool.name == name), None)
