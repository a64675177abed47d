"""The servers' processes on this host, and pdwatch's own. In: the configured targets. Out: process observations.

Reading /proc blocks for milliseconds and more, so it happens in a thread; what it found is emitted in the event loop.
Which targets can be on this host is told by their addresses: in sidecar mode all, else those that lead back here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agent.config import Config
from agent.model import OWN_TARGET, Observation, ProcessesObservation
from agent.sources.clock import Clock, SystemClock
from agent.sources.http import targets_of
from agent.sources.servers import TargetHint

ROUND_SECONDS = 15.0
LEAST_ROUND_SECONDS = 1.0
"""Where the leak detector's times are scaled down, its readings come faster as well, but not faster than this."""


class ProcessSource:
    """Reads every local target's processes each `round_seconds`. `emit` is called in the event loop.

    `own`: pdwatch's own process is read as well.
    """

    def __init__(
        self,
        config: Config,
        emit: Callable[[Observation], None],
        clock: Clock | None = None,
        proc_root: Path = Path("/proc"),
        cgroup_root: Path = Path("/sys/fs/cgroup"),
        *,
        own: bool = True,
    ) -> None:
        self.targets = local_targets(config)
        self._changed = False
        self._emit = emit
        self._own = own
        self._clock = clock or SystemClock()
        self._roots = (proc_root, cgroup_root)
        self.round_seconds = round_seconds_of(config)

    def retarget(self, config: Config) -> None:
        """Reads the local targets of another configuration from the next round on."""
        targets = local_targets(config)
        self._changed = self._changed or targets != self.targets
        self.targets = targets

    async def run(self) -> None:
        """Runs until it is cancelled; where no target is local, pdwatch's own process is all that is read."""
        from agent.sources.processes import ProcessReader
        from agent.sources.processes_own import own_process

        proc_root, cgroup_root = self._roots
        reader = ProcessReader(targets=self.targets, proc_root=proc_root, cgroup_root=cgroup_root)
        due = self._clock.steady()
        while True:
            if self._changed:
                self._changed = False
                reader = ProcessReader(targets=self.targets, proc_root=proc_root, cgroup_root=cgroup_root)
            if self.targets:
                for observation in await asyncio.to_thread(reader.read, self._clock.wall()):
                    self._emit(observation)
            own = own_process(proc_root) if self._own else None
            if own is not None:
                self._emit(ProcessesObservation(self._clock.wall(), OWN_TARGET, (own,)))
            due = max(due + self.round_seconds, self._clock.steady())
            await self._clock.sleep_until(due)


def round_seconds_of(config: Config) -> float:
    """Time between two readings of a process."""
    return max(LEAST_ROUND_SECONDS, ROUND_SECONDS * config.memory.time_scale)


def local_targets(config: Config) -> dict[str, TargetHint]:
    """Name -> what is known, of every target whose server can run on this host.

    The router is not one of them, nor is a target whose processes the pdwatch beside it reads: none counts twice.
    """
    elsewhere = {target.name for target in config.router.targets} if config.router is not None else set()
    if config.mode == "central":
        elsewhere |= {target.name for pool in config.pools for target in pool.targets if pool.sidecar_of(target)}
    hints = {}
    for target, _ in targets_of(config):
        parts = urlsplit(target.url)
        if target.name not in elsewhere and (config.mode == "sidecar" or _leads_back(parts.hostname or "")):
            hints[target.name] = TargetHint(port=parts.port or (443 if parts.scheme == "https" else 80))
    return hints


def _leads_back(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() in ("localhost", socket.gethostname().lower())
