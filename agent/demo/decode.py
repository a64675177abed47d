"""A decode engine: prompts whose KV lies on a prefill engine come in, tokens go out.

A request waits for room, fetches its KV, enters the batch at a step boundary, gives its first token at the end of that
step (padded with drafts that can only be rejected) and then some tokens per step until it ends. Between two changes of
the batch the steps are only counted; see `steps` and `drafting`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from agent.demo.drafting import draw_plan
from agent.demo.events import Events
from agent.demo.fetching import Fetching
from agent.demo.leg_counts import count_end, count_failure, count_first_token
from agent.demo.metrics import EngineMetrics
from agent.demo.requests import Request
from agent.demo.server import Server
from agent.demo.steps import CYCLE, LONGEST, PATTERN, SHORTEST, StepClock

ENTERED_WITH = 0.5
"""A request weighs on the step time with its prompt and this share of the tokens it will have."""


class DecodeEngine:
    """Engine number `rank` of a server. `answered`: called when a request has its first token or failed."""

    def __init__(
        self, server: Server, rank: int, events: Events, rng: Random, began: float, answered: Callable[[Request], None]
    ) -> None:
        topology = server.topology
        self.server = server
        self.rank = rank
        self.metrics = EngineMetrics(topology.decode.drafting.depth, topology.max_model_len)
        self.clock = StepClock(events.now)
        self.dead = False
        self.frozen = False
        self.step_factor = 1.0
        self.outstanding = 0
        self._events = events
        self._rng = rng
        self._began = began
        self._answered = answered
        self._topology = topology
        self._fetching = Fetching(self, events, rng)
        self._backlog: deque[Request] = deque()
        self._ready: list[Request] = []
        self._running: dict[int, Request] = {}
        self._starting: list[Request] = []
        self._ends: list[tuple[int, int, int, Request]] = []
        self._reserved_tokens = 0
        self._prompts_held = 0
        self._context_tokens = 0.0
        self._accounted_step = 0
        self._unlisted_steps = 0
        self._unlisted_tokens = 0
        self._next_step = -1
        self._version = 0
        self._held: list[tuple[Callable[[float, Request], None], Request]] = []

    # -- requests come and go -------------------------------------------------------------------------------------

    def queue(self, t: float, request: Request) -> None:
        """A tokenized prompt reaches the engine."""
        if self.frozen:
            self._held.append((self.queue, request))
        elif not self.dead and not request.gone:
            self._backlog.append(request)
            self.metrics.stepped = True
            self._make_room(t)

    def fetched(self, t: float, request: Request) -> None:
        """The KV of a request is here, or could not be loaded."""
        if self.frozen:
            self._held.append((self.fetched, request))
            return
        if self.dead or not self._fetching.finish(t, request):
            return
        request.fetch_ended = t
        if request.fails:
            self._leave(request)
            count_failure(self, t, request, self._began)
            self._answered(request)
            self._make_room(t)
        else:
            self._ready.append(request)
            self._wake(t)

    def drop(self, t: float, request: Request) -> None:
        """The client went away before its first token."""
        if self.frozen:
            self._held.append((self.drop, request))
            return
        if request in self._backlog:
            self._backlog.remove(request)
            self.outstanding -= 1
        elif self._fetching.give_up(request):
            self._leave(request)
        elif request in self._ready:
            self._ready.remove(request)
            self._leave(request)
        elif request.number not in self._running:
            self.outstanding -= 1
        self._make_room(t)

    def unfinished(self) -> list[Request]:
        """Requests that are lost when the server ends now."""
        held = [request for action, request in self._held if action == self.queue]
        return [*self._backlog, *self._fetching.requests(), *self._ready, *self._running.values(), *held]

    def _make_room(self, t: float) -> None:
        """Let the next requests fetch while the cache has room for them."""
        pool = self._topology.decode
        while self._backlog:
            request = self._backlog[0]
            full = self._reserved_tokens + request.kv_tokens > pool.kv_tokens
            holding = len(self._fetching) + len(self._ready) + len(self._running)
            if full or holding >= pool.max_running:
                return
            self._backlog.popleft()
            self._reserved_tokens += request.kv_tokens
            self._prompts_held += request.prompt_tokens
            self._fetching.begin(t, request)

    def _leave(self, request: Request) -> None:
        self.outstanding -= 1
        self._reserved_tokens -= request.kv_tokens
        self._prompts_held -= request.prompt_tokens

    # -- steps ----------------------------------------------------------------------------------------------------

    def _wake(self, t: float) -> None:
        """Something is ready for the batch: look at it at once when idle, else at the end of the current step."""
        if self.clock.idle:
            self._enter(t, self.clock.stopped_step)
        else:
            self._look_after(self.clock.step_at(t))

    def _look_after(self, step: int) -> None:
        """Make the end of `step` the next boundary that is looked at, unless an earlier one is."""
        if self._next_step < 0 or step < self._next_step:
            self._next_step = step
            self._version += 1
            self._events.at(self.clock.end_of(step), self._boundary, self._version)

    def _boundary(self, t: float, version: int) -> None:
        if self.dead or version != self._version:
            return
        completed = self._next_step + 1
        self._next_step = -1
        self._account(completed)
        starting, self._starting = self._starting, []
        for request in starting:
            self._first_token(t, request, completed)
        ends = self._ends
        while ends and ends[0][0] <= completed:
            _, _, plans, request = heappop(ends)
            if plans == len(request.plans):
                self._end(t, request, completed)
        self._make_room(t)
        self._enter(t, completed)

    def _enter(self, t: float, completed: int) -> None:
        """Form the batch of the next step, number `completed`, which begins at `t`."""
        for request in self._ready:
            request.decode_scheduled = t
            request.first_step = completed
            self._running[request.number] = request
            self._context_tokens += request.prompt_tokens + ENTERED_WITH * request.completion_tokens
        self._starting += self._ready
        self._ready = []
        if not self._running:
            self.clock.stop(t, completed)
            self._accounted_step = completed
            return
        self.clock.begin(t, self._step_seconds(), completed)
        self._look_after(completed if self._starting else max(completed, self._ends[0][0] - 1))

    def _step_seconds(self) -> float:
        speed = self._topology.decode_speed
        seconds = (
            speed.base_seconds
            + speed.per_request_seconds * len(self._running)
            + speed.per_context_token_seconds * self._context_tokens
        )
        return seconds * self.step_factor * self.server.conditions.step_factor * self._rng.uniform(0.985, 1.015)

    def _first_token(self, t: float, request: Request, completed: int) -> None:
        request.first_token = t
        request.seen_tokens = 1
        self._unlisted_tokens += 1
        count_first_token(self, t, request)
        self._answered(request)
        if request.completion_tokens > 1:
            chances = self.chances()
            request.plans.append(draw_plan(self._rng, chances, request.completion_tokens - 1, completed))
            request.seen_accepted = [0] * len(chances)
        heappush(self._ends, (request.ends_after_step, request.number, len(request.plans), request))

    def _end(self, t: float, request: Request, completed: int) -> None:
        self._count_tokens(request, completed)
        request.last_token = t
        del self._running[request.number]
        self._context_tokens -= request.prompt_tokens + ENTERED_WITH * request.completion_tokens
        self._leave(request)
        count_end(self, t, request)

    # -- counting -------------------------------------------------------------------------------------------------

    def settle(self, t: float) -> None:
        """Bring everything that a page shows up to `t`."""
        if self.frozen:
            return
        completed = self.clock.step_at(t)
        self._account(completed)
        tokens = 0
        for request in self._running.values():
            if request.plans:
                self._count_tokens(request, completed)
            tokens += request.seen_tokens
        if self._unlisted_steps:
            listed = self.metrics.histograms["iteration_tokens"]
            listed.add(listed.bucket(self._unlisted_tokens / self._unlisted_steps), self._unlisted_steps)
            listed.total += self._unlisted_tokens
            self._unlisted_steps = self._unlisted_tokens = 0
        gauges = self.metrics.gauges
        deferred = len(self._fetching) + len(self._ready)
        gauges["running"] = len(self._running)
        gauges["waiting"] = len(self._backlog) + deferred
        gauges["waiting_by_reason/capacity"] = len(self._backlog)
        gauges["waiting_by_reason/deferred"] = deferred
        gauges["kv_fetch/in_progress"] = len(self._fetching)
        gauges["kv_fetch/completed_waiting"] = len(self._ready)
        gauges["kv_usage"] = (self._prompts_held + tokens) / self._topology.decode.kv_tokens

    def _account(self, completed: int) -> None:
        """Count the steps up to `completed`, all of the clock's current segment and of one batch."""
        first, count = self._accounted_step, completed - self._accounted_step
        if count <= 0:
            return
        self._accounted_step = completed
        self._unlisted_steps += count
        counters = self.metrics.counters
        depth = self._topology.decode.drafting.depth
        if depth:
            counters["drafts"] += count * len(self._running)
            counters["draft_tokens"] += count * len(self._running) * depth
        outputs = len(self._running) - len(self._starting)
        if not outputs:
            return
        segment, itl = self.clock.current, self.metrics.histograms["itl"]
        offset = segment.first_step
        itl.total += (segment.seconds_of(completed - offset) - segment.seconds_of(first - offset)) * outputs
        low, high = itl.bucket(segment.step_seconds * SHORTEST), itl.bucket(segment.step_seconds * LONGEST)
        if low == high:
            itl.add(low, count * outputs)
        else:
            for phase in range(min(CYCLE, count)):
                alike = (count - phase - 1) // CYCLE + 1
                length = segment.step_seconds * PATTERN[(first + phase) % CYCLE]
                itl.add(itl.bucket(length), alike * outputs)

    def _count_tokens(self, request: Request, completed: int) -> None:
        """Count what a running request has generated since it was last looked at."""
        tokens, accepted = request.progress(completed)
        new = tokens - request.seen_tokens
        if not new:
            return
        request.seen_tokens = tokens
        self._unlisted_tokens += new
        counters = self.metrics.counters
        counters["generated"] += new
        before = request.seen_accepted
        request.seen_accepted = accepted
        for position, count in enumerate(accepted):
            more = count - before[position]
            if more:
                counters["accepted"] += more
                counters[f"accepted_at/{position}"] += more

    # -- incidents ------------------------------------------------------------------------------------------------

    def chances(self) -> tuple[float, ...]:
        """Chance of each draft position now."""
        factor = self.server.conditions.acceptance_factor
        return tuple([chance * factor for chance in self._topology.decode.drafting.chances])

    def replan(self, t: float) -> None:
        """Drafts are accepted otherwise from the step now under way on."""
        self.settle(t)
        if self.frozen:
            return
        completed = self.clock.step_at(t)
        for request in self._running.values():
            if request.plans and request.seen_tokens < request.completion_tokens:
                left = request.completion_tokens - request.seen_tokens
                before = (request.seen_tokens, tuple(request.seen_accepted))
                request.plans.append(draw_plan(self._rng, self.chances(), left, completed, *before))
                heappush(self._ends, (request.ends_after_step, request.number, len(request.plans), request))
        self.refresh(t)

    def refresh(self, t: float) -> None:
        """Steps take another time from the next one on."""
        if not self.frozen and not self.clock.idle:
            self._look_after(self.clock.step_at(t))

    def freeze(self, t: float) -> None:
        """Hang: the page keeps showing what it showed, and nothing that arrives is looked at."""
        self.settle(t)
        self.frozen = True
        self.clock.freeze(t)
        self._version += 1
        self._next_step = -1

    def thaw(self, t: float) -> None:
        """Go on where it stopped."""
        self.frozen = False
        self.clock.thaw(t)
        if not self.clock.idle:
            self._look_after(self.clock.step_at(t))
        held, self._held = self._held, []
        for action, request in held:
            action(t, request)

    def resume_transfers(self, t: float) -> None:
        """Transfers that had stalled begin anew."""
        self._fetching.resume(t)
