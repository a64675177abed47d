"""Simulated fleets in the shapes of the example configurations, served over HTTP. In: a topology. Out: addresses.

Every server has an address of its own, and so has the router of the second story: a page with Dynamo's names, made from
what the simulated users really waited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from aiohttp import web

from agent.demo import Fleet, Topology, story
from agent.demo.pages import CONTENT_TYPE
from agent.sources.clock import Clock

TTFT_EDGES = (0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0)
"""Of those that Dynamo's frontend has."""


def glm() -> Topology:
    """Four prefill servers of four engines, one decode server of eight, 1 and 3 draft tokens: the demo's own."""
    return story()


def qwen() -> Topology:
    """One NVL72: ten prefill nodes and eight decode nodes, each a server of four engines with a page of its own."""
    large = story()
    return replace(
        large,
        prefill=replace(large.prefill, targets=10),
        decode=replace(large.decode, targets=8, engines=4),
        model="Qwen/Qwen3.8-2.4T",
    )


@dataclass(frozen=True)
class Served:
    """A fleet on loopback. `addresses`: host:port by server; `router`: of the page with Dynamo's names."""

    fleet: Fleet
    addresses: dict[str, str]
    router: str


@asynccontextmanager
async def served(topology: Topology, clock: Clock, past_seconds: float) -> AsyncIterator[Served]:
    """The fleet has run for `past_seconds` when it begins to answer; from then on its time is the clock's."""
    fleet = Fleet(topology, clock.wall() - past_seconds)
    async with AsyncExitStack() as stack:

        async def listening(page: Callable[[], str | None]) -> str:
            async def metrics(_: web.Request) -> web.Response:
                fleet.advance(clock.wall())
                text = page()
                status = 503 if text is None else 200
                return web.Response(body=(text or "").encode(), headers={"Content-Type": CONTENT_TYPE}, status=status)

            app = web.Application()
            app.router.add_get("/metrics", metrics)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            return f"127.0.0.1:{runner.addresses[0][1]}"

        addresses = {name: await listening(partial(fleet.page, name)) for name in fleet.targets}
        router = await listening(partial(frontend_page, fleet))
        fleet.advance(clock.wall())
        yield Served(fleet, addresses, router)


def frontend_page(fleet: Fleet) -> str:
    """What Dynamo's frontend would count of the users that have their first token."""
    waits = [wait for request in fleet.requests if (wait := request.user_ttft_seconds) is not None]
    label = f'model="{fleet.topology.model}"'
    name = "dynamo_frontend_time_to_first_token_seconds"
    lines = [
        f"# HELP {name} Time to first token",
        f"# TYPE {name} histogram",
        *(f'{name}_bucket{{{label},le="{edge:g}"}} {sum(wait <= edge for wait in waits)}' for edge in TTFT_EDGES),
        f'{name}_bucket{{{label},le="+Inf"}} {len(waits)}',
        f"{name}_sum{{{label}}} {sum(waits)}",
        f"{name}_count{{{label}}} {len(waits)}",
        "# HELP dynamo_frontend_requests_total Requests",
        "# TYPE dynamo_frontend_requests_total counter",
        f'dynamo_frontend_requests_total{{endpoint="chat_completions",{label},status="success"}} {len(waits)}',
    ]
    return "\n".join(lines) + "\n"
