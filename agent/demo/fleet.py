"""The fleet: servers, the router before them, and virtual time. In: a topology and a start. Out: pages and processes.

    fleet = Fleet(story(), start=1_796_000_000.0)
    start_incident(fleet, "mtp-collapse", at=fleet.now + 1800, until=fleet.now + 3600)
    fleet.advance(fleet.now + 60)
    fleet.page("decode-0")

The router is a serial proxy: prefill servers in turn, on each the engine with the fewest requests; when the prefill
leg is done, the same for decode. Time only moves by `advance`; the same topology and calls give the same pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

from agent.demo import host_memory
from agent.demo.conditions import Conditions
from agent.demo.decode import DecodeEngine
from agent.demo.events import Events
from agent.demo.metrics import HttpMetrics
from agent.demo.pages import PageWriter
from agent.demo.prefill import PrefillEngine
from agent.demo.requests import Request
from agent.demo.server import Server
from agent.demo.topology import Topology
from agent.demo.traffic import Arrivals
from agent.errors import ConfigError
from agent.model import ProcessesObservation

SWEEP_SECONDS = 5.0
HORIZON_SECONDS = 3600.0
"""How far ahead the next arrival is looked for before the rate is asked again."""


class Fleet:
    """One simulated deployment. `remember_seconds`: how far back the truth can be asked for; None: to the start.

    `rejected`: requests that the proxy refused because a pool was down; `walked_away`: clients that lost patience.
    """

    def __init__(self, topology: Topology, start: float, remember_seconds: float | None = 7200.0) -> None:
        self.topology = topology
        self.began = start
        self.conditions = Conditions()
        self.arrivals = Arrivals(topology.traffic, topology.seed)
        self.events = Events(start)
        self.requests: deque[Request] = deque()
        self.rejected = 0
        self.walked_away = 0
        self._remember_seconds = remember_seconds
        self._rng = Random(f"{topology.seed}:router")
        self._turn = 0
        self._numbers = 0
        self._arrival_version = 0
        self._unanswered: dict[int, Request] = {}
        roles = [("prefill", topology.prefill), ("decode", topology.decode)]
        names = [(role, index) for role, pool in roles for index in range(pool.targets)]
        self.servers = {
            f"{role}-{index}": Server(
                f"{role}-{index}",
                "prefill" if role == "prefill" else "decode",
                number,
                topology,
                self.conditions,
                self._prefilled,
            )
            for number, (role, index) in enumerate(names)
        }
        for server in self.servers.values():
            self._launch(start, server)
        self.events.at(start + SWEEP_SECONDS, self._sweep, None)
        self.expect_arrivals(start)

    # -- what the outside asks --------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual time, unix seconds."""
        return self.events.now

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all servers, prefill first."""
        return tuple(self.servers)

    def advance(self, until: float) -> None:
        """Let everything up to `until` happen; a moment that is past changes nothing."""
        self.events.run(until)

    def page(self, target: str) -> str | None:
        """The metrics page of a server at this moment, or None while it does not answer."""
        server = self.server(target)
        if not server.up or server.writer is None:
            return None
        for engine in server.engines:
            engine.settle(self.now)
        return server.writer.text(self.now)

    def processes(self, target: str) -> ProcessesObservation:
        """The processes behind a server and their memory at this moment; none while it is down."""
        return host_memory.processes(self.server(target), self.now)

    def server(self, target: str) -> Server:
        """Raises ConfigError for a name that the fleet does not have."""
        if target not in self.servers:
            raise ConfigError(f"demo: no server {target!r}; there are {', '.join(self.servers)}")
        return self.servers[target]

    def decode_engines(self) -> Iterator[DecodeEngine]:
        """All decode engines that run."""
        for server in self.servers.values():
            yield from server.decode_engines

    # -- what incidents do ------------------------------------------------------------------------------------------

    def expect_arrivals(self, t: float) -> None:
        """Look for the next arrival anew, after the traffic was changed."""
        self._arrival_version += 1
        self._await_arrival(t, self._arrival_version)

    def submit(self, t: float, prompt_tokens: int, cached_tokens: int, completion_tokens: int, reason: str) -> Request:
        """One request, now."""
        self._numbers += 1
        request = Request(self._numbers, t, prompt_tokens, cached_tokens, completion_tokens, reason)
        self.requests.append(request)
        self._send_to_prefill(t, request)
        return request

    def stop_server(self, t: float, server: Server) -> None:
        """End a server: it answers no more, and what was inside is lost (a lost prefill is tried elsewhere)."""
        server.up = False
        lost_prefills = [request for engine in server.prefill_engines for request in engine.unfinished()]
        for engine in server.engines:
            engine.dead = True
        for decode_engine in server.decode_engines:
            for request in decode_engine.unfinished():
                request.gone = True
                self._unanswered.pop(request.number, None)
                self._lapse(t, request)
            decode_engine.clock.freeze(t)
        for request in lost_prefills:
            self._send_to_prefill(t, request)

    def start_server(self, t: float, server: Server) -> None:
        """A new life of a server that was ended."""
        self._launch(t, server)

    # -- the router -------------------------------------------------------------------------------------------------

    def _launch(self, t: float, server: Server) -> None:
        server.lives += 1
        server.started = t
        seed = f"{self.topology.seed}:{server.name}:{server.lives}"
        if server.role == "prefill":
            server.prefill_engines = [
                PrefillEngine(server, rank, self.events, Random(f"{seed}:{rank}"))
                for rank in range(server.pool.engines)
            ]
        else:
            server.decode_engines = [
                DecodeEngine(server, rank, self.events, Random(f"{seed}:{rank}"), self.began, self._answered)
                for rank in range(server.pool.engines)
            ]
        server.http = HttpMetrics()
        server.writer = PageWriter(server)
        server.up = True
        server.draining = False

    def _await_arrival(self, t: float, version: int) -> None:
        if version != self._arrival_version:
            return
        horizon = t + HORIZON_SECONDS
        arrival = self.arrivals.next_after(t, horizon)
        if arrival is None:
            self.events.at(horizon, self._await_arrival, version)
        else:
            self.events.at(arrival, self._arrive, version)

    def _arrive(self, t: float, version: int) -> None:
        if version != self._arrival_version:
            return
        prompt = self.arrivals.prompt_tokens()
        cached = self.arrivals.cached_tokens(prompt, self.topology.block_tokens)
        self.submit(t, prompt, cached, *self.arrivals.completion_tokens())
        self._await_arrival(t, version)

    def _open_servers(self, role: str) -> list[Server]:
        """Servers that take requests; with none of them, those that drain."""
        servers = [server for server in self.servers.values() if server.role == role and server.up]
        return [server for server in servers if not server.draining] or servers

    def _send_to_prefill(self, t: float, request: Request) -> None:
        servers = self._open_servers("prefill")
        if not servers or not self._open_servers("decode"):
            self._reject(request)
            return
        self._turn += 1
        server, turn = servers[self._turn % len(servers)], self._turn // len(servers)
        engines = server.prefill_engines
        in_turn = (engines[(turn + place) % len(engines)] for place in range(len(engines)))
        engine = min(in_turn, key=_outstanding)
        engine.outstanding += 1
        request.prefill_engine = engine
        request.prefill_arrived = t + self.topology.proxy_seconds
        request.prefill_queued = request.prefill_arrived + self._tokenizing(request)
        self._unanswered[request.number] = request
        self.events.at(request.prefill_queued, engine.queue, request)

    def _prefilled(self, t: float, request: Request) -> None:
        servers = self._open_servers("decode")
        walks_away = self._rng.random() < self.conditions.walk_away_share
        if not servers or walks_away:
            self.walked_away += walks_away
            self._reject(request, counted=not walks_away)
            self._lapse(t, request)
            return
        engine = min(servers[self._turn % len(servers)].decode_engines, key=_outstanding)
        engine.outstanding += 1
        request.decode_engine = engine
        request.decode_arrived = t + self.topology.proxy_seconds
        request.decode_queued = request.decode_arrived + self._tokenizing(request)
        self.events.at(request.decode_queued, engine.queue, request)

    def _answered(self, request: Request) -> None:
        self._unanswered.pop(request.number, None)

    def _reject(self, request: Request, counted: bool = True) -> None:
        request.gone = True
        self.rejected += counted
        self._unanswered.pop(request.number, None)

    def _tokenizing(self, request: Request) -> float:
        return request.prompt_tokens * self.topology.tokenize_seconds_per_token

    def _lapse(self, t: float, request: Request) -> None:
        """Nobody will fetch the KV of this request any more: its lease runs out."""
        if request.prefill_engine is not None:
            self.events.at(t + self.topology.transfer.lease_seconds, request.prefill_engine.expire, request)

    # -- house-keeping ----------------------------------------------------------------------------------------------

    def _sweep(self, t: float, _: None) -> None:
        self.events.at(t + SWEEP_SECONDS, self._sweep, None)
        limit = t - self.topology.traffic.patience_seconds
        tired = []
        for request in self._unanswered.values():
            if request.arrived > limit:
                break
            tired.append(request)
        for request in tired:
            del self._unanswered[request.number]
            request.gone = True
            self.walked_away += 1
            if request.decode_engine is not None:
                request.decode_engine.drop(t, request)
                self._lapse(t, request)
            elif request.prefill_engine is not None and not request.prefill_engine.dead:
                request.prefill_engine.drop(t, request)
        if self._remember_seconds is not None:
            self._forget(t - self._remember_seconds)

    def _forget(self, before: float) -> None:
        requests = self.requests
        while requests and _over(requests[0], before):
            requests.popleft()
        for engine in self.decode_engines():
            engine.clock.forget(before)


def _outstanding(engine: PrefillEngine | DecodeEngine) -> int:
    return engine.outstanding


def _over(request: Request, before: float) -> bool:
    """Whether nothing of a request happened at or after `before`."""
    if request.arrived >= before:
        return False
    if request.last_token is not None:
        return request.last_token < before
    return request.gone or request.fails
