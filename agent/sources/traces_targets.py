"""Whose spans these are. In: a resource's attributes. Out: the name of a target, or of a pool, or None.

A server says who it is by OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES. A value that is a target's or a pool's name
needs no configuration; any other is looked up under `traces.services`. A target is better than a pool.
"""

from __future__ import annotations

from collections import Counter

from agent.config import Config
from agent.errors import ConfigError
from agent.sources.traces_spans import Attributes, without_surrogates

NAMING_ATTRIBUTES = ("service.instance.id", "service.name", "k8s.pod.name", "host.name")
MOST_UNKNOWN = 100
LONGEST_SHOWN = 100


class TargetNames:
    """`unknown`: spans by the service name that nothing is known for, at most 100 names.

    Raises ConfigError when `traces.services` leads to a name that is neither a target's nor a pool's.
    """

    def __init__(self, config: Config) -> None:
        self.unknown: Counter[str] = Counter()
        self.retarget(config)

    def retarget(self, config: Config) -> None:
        """Takes the names of another configuration. Raises ConfigError with nothing changed."""
        names = {pool.name for pool in config.pools} | {target.name for pool in config.pools for target in pool.targets}
        # What discovery will find cannot be known before it has.
        is_closed = all(pool.discovery is None for pool in config.pools)
        for service, name in config.traces.services:
            if is_closed and name not in names:
                where = f"{config.file}: " if config.file else ""
                raise ConfigError(f"{where}traces.services.{service}: {name!r} is neither a target nor a pool")
        self._targets = {target.name for pool in config.pools for target in pool.targets}
        self._only = {pool.name: pool.targets[0].name for pool in config.pools if len(pool.targets) == 1}
        self._pools = {pool.name for pool in config.pools}
        self._services = dict(config.traces.services)

    def of(self, resource: Attributes, spans: int) -> str | None:
        """The name for `spans` spans of this resource; None is counted."""
        said = [str(resource[name]) for name in NAMING_ATTRIBUTES if name in resource]
        names = [self._services.get(value, value) for value in said]
        for name in names:
            if name in self._targets:
                return name
        for name in names:
            if name in self._pools:
                return self._only.get(name, name)
        service = without_surrogates(str(resource.get("service.name", "no service.name"))[:LONGEST_SHOWN])
        if service in self.unknown or len(self.unknown) < MOST_UNKNOWN:
            self.unknown[service] += spans
        return None
