"""The configuration read again while pdwatch runs. In: a way to load it, a way to apply it. Out: what came of it.

A file that cannot be used changes nothing: the old configuration goes on, and that is said until a good one comes. What
cannot change in a running process keeps its value and is named.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

from agent.config import Config, Pool
from agent.config.fields import keys_of
from agent.errors import ConfigError
from agent.outputs.own import ReloadFigures
from agent.outputs.reload_route import ReloadAnswer
from agent.state import ProblemState

TAKEN_OVER = (
    "alerting",
    "contract",
    "deployment",
    "dispatch",
    "links",
    "memory.cache_budget",
    "memory.page_within",
    "objectives",
    "pools",
    "router",
    "scrape",
    "traces.services",
)
"""Key paths that take effect at once, with all below them. Everything else needs a restart."""
OF_A_START = ("router.kind", "router.prefix")
"""What lies below them and needs one all the same: it says how pages are read."""

log = logging.getLogger("pdwatch")


class Reloader:
    """`load` reads the configuration anew (it raises ConfigError), `apply` puts one in force; `wall`: unix seconds."""

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        apply: Callable[[Config], None],
        wall: Callable[[], float],
    ) -> None:
        self._config = config
        self._load, self._apply, self._wall = load, apply, wall
        self._lock = asyncio.Lock()
        self._next: asyncio.Future[ReloadAnswer] | None = None
        self._succeeded = wall()
        self._failure: tuple[float, str] | None = None

    async def reload(self) -> ReloadAnswer:
        """Reads and applies the configuration. Never raises for what is in it; one reload at a time.

        All who ask while one runs share the next: it reads the file after they asked.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._reload())
        return await asyncio.shield(self._next)

    async def _reload(self) -> ReloadAnswer:
        async with self._lock:
            self._next = None  # who asks from here on may have written the file after it was read
            try:
                wanted = await asyncio.to_thread(self._load)
                config = in_force(self._config, wanted)
                changed = tuple(differences(self._config, config))
                self._apply(config)
            except ConfigError as error:
                since = self._failure[0] if self._failure is not None else self._wall()
                self._failure = (since, str(error))
                log.error("the configuration was not reloaded, the old one stays in force: %s", error)
                return ReloadAnswer(error=str(error))
            needs_restart = tuple(differences(config, wanted))
            self._config, self._failure, self._succeeded = config, None, self._wall()
            log.info("configuration reloaded; changed: %s", ", ".join(changed) or "nothing")
            if needs_restart:
                log.warning("not in force before a restart: %s", ", ".join(needs_restart))
            return ReloadAnswer(changed=changed, needs_restart=needs_restart)

    def figures(self) -> ReloadFigures:
        """As of now; the start counts as a reload that succeeded."""
        return ReloadFigures(self._failure is None, self._succeeded)

    def problems(self, _: float) -> list[ProblemState]:
        """One while the file on disk is not in force because it is broken."""
        if self._failure is None:
            return []
        since, text = self._failure
        said = f"the configuration could not be reloaded, the old one stays in force: {text}"
        return [ProblemState("config_reload_failed", None, since, said, "warning")]


def in_force(old: Config, new: Config) -> Config:
    """`new`, with what needs a restart as it is in `old`."""
    config: Config = _merged(old, new, "")
    return dataclasses.replace(config, file=new.file)


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Key paths of all settings that differ; pools by name, lists as a whole."""
    for field in keys_of(type(old)):
        here = _below(path, field.metadata["key"])
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        if all(isinstance(item, Pool) for item in (*_items(before), *_items(after))) and here == "pools":
            yield from _pool_differences(before, after)
        elif dataclasses.is_dataclass(before) and type(before) is type(after):
            yield from differences(before, after, here)
        else:
            yield here


def _pool_differences(old: tuple[Pool, ...], new: tuple[Pool, ...]) -> Iterator[str]:
    before, after = {pool.name: pool for pool in old}, {pool.name: pool for pool in new}
    for name in dict.fromkeys((*before, *after)):
        if name in before and name in after:
            yield from differences(before[name], after[name], f"pools.{name}")
        else:
            yield f"pools.{name}"


def _merged(old: Any, new: Any, path: str) -> Any:
    values = {}
    for field in keys_of(type(new)):
        here = _below(path, field.metadata["key"])
        before, after = getattr(old, field.name), getattr(new, field.name)
        has_inside = any(key.startswith(f"{here}.") for key in (*TAKEN_OVER, *OF_A_START))
        if has_inside and type(before) is type(after) and dataclasses.is_dataclass(before):
            values[field.name] = _merged(before, after, here)
        else:
            is_taken = any(here == key or here.startswith(f"{key}.") for key in TAKEN_OVER) and here not in OF_A_START
            values[field.name] = after if is_taken else before
    return dataclasses.replace(new, **values)


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
