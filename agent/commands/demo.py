"""`pdwatch demo`. In: an incident, a speed, where to listen. Out: the built-in fleet and pdwatch beside it.

The fleet's servers are real addresses on this host, scraped over HTTP like any others; nothing in pdwatch knows that
they are simulated. `pdwatch run` without a deployment starts the same.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TextIO

from agent.commands.arguments import log_to_stderr

if TYPE_CHECKING:
    from agent.demo.world import DemoWorld
    from agent.outputs.live import Live
    from agent.runtime import Stop
    from agent.sources.clock import Clock

FLEET_LISTEN = "127.0.0.1:0"
MOST_SPEED = 60.0
log = logging.getLogger("pdwatch")

YOURS = "pdwatch run --prefill URL --decode URL, or -c FILE"


def configure(parser: argparse.ArgumentParser) -> None:
    """What goes wrong, how fast, and where to listen."""
    parser.add_argument("--incident", metavar="NAME", help="begin with this incident, such as leak or mtp-collapse")
    parser.add_argument("--speed", metavar="N", type=_speed, default=1.0, help="time goes N times as fast (up to 60)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where pdwatch serves (default 127.0.0.1:9838)")
    parser.add_argument(
        "--fleet-listen",
        metavar="HOST:PORT",
        default=FLEET_LISTEN,
        help="where the fleet serves its page; the servers take the five ports after it (default: free ones)",
    )


def main(args: argparse.Namespace) -> int:
    """Runs until SIGINT (130) or SIGTERM (0). Raises ConfigError."""
    return start(args.incident, args.speed, args.listen, args.fleet_listen)


def start(
    incident: str | None = None, speed: float = 1.0, listen: str | None = None, fleet_listen: str = FLEET_LISTEN
) -> int:
    """The demo in this process, until a signal ends it. Raises ConfigError."""
    from agent import runtime
    from agent.demo.clock import FasterClock
    from agent.demo.incidents import incident_named

    if incident is not None:
        incident_named(incident)
    log_to_stderr()
    listen = listen or os.environ.get("PDWATCH_LISTEN") or None
    clock = FasterClock()

    def begin() -> None:
        # Not before: the past would have to catch up with a present that runs away.
        clock.go_at(speed)

    async def work(stop: Stop) -> None:
        await run_demo(
            stop, clock, incident=incident, listen=listen, fleet_listen=fleet_listen, speed=speed, begin=begin
        )

    return runtime.run_until_signal(work)


async def run_demo(
    stop: Stop,
    clock: Clock,
    *,
    incident: str | None = None,
    listen: str | None = None,
    fleet_listen: str = FLEET_LISTEN,
    speed: float = 1.0,
    out: TextIO | None = None,
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Serves the fleet, and watches it until `stop` is wanted. Raises ConfigError for an address that is taken.

    `speed`: how fast `clock` runs once `begin` was called, which is when the past has been told.
    """
    from agent.config import listen_address
    from agent.demo.web import bound, overview_app, serve, target_app
    from agent.demo.world import DemoWorld, target_names
    from agent.errors import ConfigError
    from agent.runtime import watch_world

    try:
        host, port = listen_address(fleet_listen)
    except ValueError as error:
        raise ConfigError(f"demo: --fleet-listen: {error}") from None
    names = target_names()
    async with AsyncExitStack() as stack:
        sockets = [bound(host, port + number if port else 0) for number in range(len(names) + 1)]
        for listening in sockets:
            stack.callback(listening.close)
        ports = {name: listening.getsockname()[1] for name, listening in zip(names, sockets[1:], strict=True)}
        world = DemoWorld(clock, ports, host=_reached_at(host), speed=speed)
        stack.callback(world.end)
        for name, listening in zip(names, sockets[1:], strict=True):
            stack.push_async_callback(await serve(target_app(world, name), listening))
        stack.push_async_callback(await serve(overview_app(world), sockets[0]))
        page = f"http://{_shown(host)}:{sockets[0].getsockname()[1]}/"
        await watch_world(
            world.config,
            stop,
            listen=listen,
            out=out,
            clock=clock,
            on_start=lambda live: _introduce(live, world, page, out or sys.stdout),
            before=lambda live: _tell_past(live, world, stop, incident, begin),
            beside={"demo fleet": world.run},
        )


def _introduce(live: Live, world: DemoWorld, page: str, out: TextIO) -> None:
    """Says what is being watched: on the page, and beside the address."""
    world.pdwatch_address = live.listening
    live.note = (
        f"This is the built-in demo fleet, simulated: start incidents at {page}. "
        f"All that is older than pdwatch's start was told to it at once. To watch yours: {YOURS}."
    )
    out.write(f"It watches the demo fleet, whose own page starts incidents: {page} To watch yours: {YOURS}\n")
    out.flush()
    lag, speed = live.loop_lag, world.speed

    def lag_of_the_machine() -> float | None:
        seconds = lag()
        return None if seconds is None else seconds / speed

    live.loop_lag = lag_of_the_machine


async def _tell_past(live: Live, world: DemoWorld, stop: Stop, incident: str | None, begin: Callable[[], None]) -> None:
    """Shows pdwatch what happened before it started, judged as it would have been; then the incident may begin."""
    world.tend_processes()  # so that they have their names when they are looked for
    log.info("the demo fleet makes its first twenty minutes")
    for moment, seen in world.past():
        for observation in seen:
            live.observe(observation)
        live.watch.evaluate(moment)
        if live.history is not None:
            live.history.note(live.watch.state(moment, recover=False))
        await asyncio.sleep(0)  # a signal may end it here
        if stop.wanted.is_set():
            return
    begin()
    if incident is not None:
        world.incidents.start(incident)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed <= MOST_SPEED:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to {MOST_SPEED:g}")
    return speed


def _reached_at(host: str) -> str:
    """Where this machine reaches what listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _shown(host: str) -> str:
    """A host as a browser can open it."""
    shown = {"": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"[{shown}]" if ":" in shown else shown
