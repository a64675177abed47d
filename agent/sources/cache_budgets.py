"""How far vLLM's own caches may grow. In: a server's command line, and its environment where it can be read.
Out: one budget per cache. Why: a cache that fills to its cap looks like a leak until it is full; growth
within the cap is not one.

Names and defaults of the options: vLLM's `--help` (MultiModalConfig, CacheConfig, KVTransferConfig) and
LMCache's configuration reference. Sizes there are GiB, in the KV connectors' own configuration bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from agent.model import ProcessKind
from agent.sources.ports import has_option, option_value
from agent.sources.procfs import read_file
from agent.sources.titles import server_program

GIB = 1 << 30
MM_PROCESSOR_CACHE_DEFAULT_GIB = 4.0
SIMPLE_OFFLOAD_DEFAULT_BYTES = 8 * GIB

_NUMBER_WITH_SUFFIX = re.compile(r"\b(\d+(?:\.\d+)?)([kKmMgGtT])\b")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')

FRONT_AND_ENGINE: tuple[ProcessKind, ...] = ("launcher", "api_server", "engine_core")
WORKERS: tuple[ProcessKind, ...] = ("engine_core", "worker")
"""Where KV blocks live: in the workers, or in the engine core when it runs its only worker itself."""

Where = Literal["anon", "shmem", "at_start"]


class CacheBudget(NamedTuple):
    """One cache. `size_bytes` is what a single process of `kinds` may take for it; None: set, but not in
    bytes.

    `where` it shows: `anon` memory that grows, `shmem` (one region counted in every process that maps it), or
    `at_start`: taken before the server is ready, so that it excuses no later growth. `declared` is False for
    a default that takes effect only if the model has such inputs at all: `vllm:mm_cache_queries_total` on the
    page tells.
    """

    name: str
    size_bytes: int | None
    kinds: tuple[ProcessKind, ...]
    where: Where
    declared: bool


def cache_budgets(command_line: Sequence[str], environment: Mapping[str, str] | None = None) -> list[CacheBudget]:
    """The caches of a server by its launcher's command line; empty for another program's. Never raises.

    `environment` is the launcher's, None when it may not be read (LMCache's own settings are then unknown).
    """
    if server_program(command_line) is None:
        return []
    return [
        *_multi_modal(command_line),
        *_kv_offloading(command_line),
        *_connectors(command_line, environment),
        *_swap_space(command_line),
    ]


def growth_budget_bytes(
    budgets: Iterable[CacheBudget], kind: ProcessKind, *, assume_defaults: bool = False
) -> int | None:
    """How much anonymous memory the caches of one process may add after start; None when one is set but its
    size unknown.

    `assume_defaults` counts the caches that are on by default as well.
    """
    total = 0
    for budget in budgets:
        if kind in budget.kinds and budget.where == "anon" and (budget.declared or assume_defaults):
            if budget.size_bytes is None:
                return None
            total += budget.size_bytes
    return total


def read_environment(proc_root: str, pid: int) -> dict[str, str] | None:
    """The environment a process was started with, reduced to LMCache's settings (the rest may hold secrets).

    None when it may not be read: that needs the rights of ptrace.
    """
    try:
        content = read_file(f"{proc_root}/{pid}/environ")
    except OSError:
        return None
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in pairs if name.startswith("LMCACHE_")}


def _multi_modal(command_line: Sequence[str]) -> list[CacheBudget]:
    """One copy in each API process and each engine core; with the shared-memory type the engine's is one
    shared region.
    """
    size = _gibibytes(option_value(command_line, "mm-processor-cache-gb"))
    declared = has_option(command_line, "mm-processor-cache-gb")
    if not declared:
        size = int(MM_PROCESSOR_CACHE_DEFAULT_GIB * GIB)
    if size == 0 or has_option(command_line, "language-model-only"):
        return []
    shared = option_value(command_line, "mm-processor-cache-type") == "shm"
    return [CacheBudget("multi_modal_processor_cache", size, FRONT_AND_ENGINE, "shmem" if shared else "anon", declared)]


def _kv_offloading(command_line: Sequence[str]) -> list[CacheBudget]:
    """`--kv-offloading-size`: one region for all ranks of an engine, mapped into each of its workers.

    With LMCache as its backend the blocks are in LMCache's own server and in no process of ours.
    """
    elsewhere = option_value(command_line, "kv-offloading-backend") == "lmcache"
    if elsewhere or not has_option(command_line, "kv-offloading-size"):
        return []
    size = _gibibytes(option_value(command_line, "kv-offloading-size"))
    return [] if size == 0 else [CacheBudget("kv_offloading", size, WORKERS, "shmem", True)]


def _connectors(command_line: Sequence[str], environment: Mapping[str, str] | None) -> list[CacheBudget]:
    budgets: list[CacheBudget] = []
    for connector in _each_connector(_kv_transfer_config(command_line)):
        name = str(connector.get("kv_connector", ""))
        extra = connector.get("kv_connector_extra_config")
        extra = extra if isinstance(extra, dict) else {}
        if name.startswith("LMCacheConnector"):
            budgets += _lmcache(extra, environment)
            continue
        size: float | None = None  # num_cpu_blocks: the size of a block is known to the engine alone
        if "cpu_bytes_to_use_per_rank" in extra or "cpu_bytes_to_use" in extra:
            size = _number(extra.get("cpu_bytes_to_use_per_rank", extra.get("cpu_bytes_to_use")))
        elif name == "SimpleCPUOffloadConnector":
            size = SIMPLE_OFFLOAD_DEFAULT_BYTES
        elif "num_cpu_blocks" not in extra:
            continue
        # The simple connector pins its tensors when it starts; the other maps one shared region.
        where: Where = "at_start" if name == "SimpleCPUOffloadConnector" else "shmem"
        budgets.append(CacheBudget("kv_offloading", None if size is None else int(size), WORKERS, where, True))
    return budgets


def _lmcache(extra: Mapping[str, Any], environment: Mapping[str, str] | None) -> list[CacheBudget]:
    """LMCache's CPU tier: a pool per worker. Its settings are in the environment, or in the connector's own
    keys.
    """
    if "lmcache.max_local_cpu_size" in extra:
        size = _gibibytes(str(extra["lmcache.max_local_cpu_size"]))
    elif environment is None or "LMCACHE_CONFIG_FILE" in environment:
        size = None  # set in a file of the server's own file system, or hidden from us
    elif "LMCACHE_MAX_LOCAL_CPU_SIZE" in environment:
        size = _gibibytes(environment["LMCACHE_MAX_LOCAL_CPU_SIZE"])
    else:
        size = None
    if size == 0 or (environment or {}).get("LMCACHE_LOCAL_CPU", "").lower() in ("false", "0"):
        return []
    return [CacheBudget("lmcache_local_cpu", size, WORKERS, "anon", True)]


def _swap_space(command_line: Sequence[str]) -> list[CacheBudget]:
    """`--swap-space`: taken in full at start by the first engine generation, ignored by the present one."""
    if not has_option(command_line, "swap-space"):
        return []
    size = _gibibytes(option_value(command_line, "swap-space"))
    return [] if size == 0 else [CacheBudget("swap_space", size, WORKERS, "at_start", True)]


def _kv_transfer_config(command_line: Sequence[str]) -> dict[str, Any]:
    """The JSON of `--kv-transfer-config`, completed by its dotted form (`--kv-transfer-config.kv_connector
    X`).
    """
    config: dict[str, Any] = {}
    text = option_value(command_line, "kv-transfer-config")
    if text:
        try:
            parsed = json.loads(_plain_numbers(text))
        except (ValueError, RecursionError):
            parsed = None
        config = parsed if isinstance(parsed, dict) else {}
    for index, word in enumerate(command_line):
        option, equals, rest = word.partition("=")
        stem, dot, path = option.partition(".")
        if not dot or stem.replace("_", "-") != "--kv-transfer-config":
            continue
        value = rest if equals else (command_line[index + 1] if index + 1 < len(command_line) else "")
        key, _, inner_key = path.partition(".")
        if not inner_key:
            config[key] = value
            continue
        inner = config.setdefault(key, {})  # a key below it may hold dots itself: lmcache.max_local_cpu_size
        if isinstance(inner, dict):
            inner[inner_key] = value
    return config


def _plain_numbers(text: str) -> str:
    """JSON as vLLM takes it: outside of strings a number may end in k, m, g, t (decimal) or K, M, G, T (binary)."""

    def plain(match: re.Match[str]) -> str:
        power = "kmgt".index(match[2].lower()) + 1
        return str(int(float(match[1]) * (1024 if match[2].isupper() else 1000) ** power))

    parts = _QUOTED.split(text)
    return "".join(part if index % 2 else _NUMBER_WITH_SUFFIX.sub(plain, part) for index, part in enumerate(parts))


def _each_connector(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A connector, or all that a MultiConnector holds."""
    extra = config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    if isinstance(inner, list):
        return [one for connector in inner if isinstance(connector, dict) for one in _each_connector(connector)]
    return [config] if config else []


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < 1 << 60 else None


def _gibibytes(text: str | None) -> int | None:
    number = None if text is None else _number(text)
    return None if number is None else int(number * GIB)
