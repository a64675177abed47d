"""`pdwatch top` at work: the feed, the keys and the screen together. In: an address. Out: an exit code.

What changes the terminal is undone on every way out: by q, Ctrl-C, a signal, an error, and while it is stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack
from typing import TextIO

import aiohttp
from rich.console import Console, Group
from rich.live import Live as LiveScreen
from rich.text import Text

from agent.outputs.terminal.client import fetch_state, state_url
from agent.outputs.terminal.feed import Feed
from agent.outputs.terminal.keys import keys_in, single_keys
from agent.outputs.terminal.screen import Seen, most_offset, report, screen
from agent.outputs.terminal.view import QUIT, View, after
from agent.outputs.terminal.words import encodable
from agent.sources.clock import Clock, SystemClock

REDRAW_SECONDS = 1.0
"""Ages go on between documents."""
READ_BYTES = 1024


def run_top(address: str, once: bool) -> int:
    """Shows the state until q (0), or once where that is wanted or where there is no terminal. Raises PdwatchError."""
    url = state_url(address)
    console = Console(highlight=False, markup=False, emoji=False)
    is_screen = console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty()
    if once or not is_screen:
        return asyncio.run(_show_once(url, console))
    return asyncio.run(_watch(url, console, sys.stdin))


async def _show_once(url: str, console: Console) -> int:
    async with aiohttp.ClientSession() as session:
        document = await fetch_state(session, url)
    for line in report(Seen(document), console.width):
        console.print(encodable(line, console.encoding), no_wrap=True, overflow="ignore", crop=False, end="\n")
    return 0


async def _watch(url: str, console: Console, keyboard: TextIO) -> int:
    async with aiohttp.ClientSession() as session:
        clock = SystemClock()
        top = Top(console, clock)
        feed = Feed(lambda: fetch_state(session, url), clock, top.redraw)
        await feed.first()
        return await top.run(feed, keyboard)


class Top:
    """The screen of one viewer."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._view = View()
        self._ended = asyncio.Event()
        self._exit_code = 0
        self._feed: Feed | None = None
        self._screen: LiveScreen | None = None
        self._terminal = ExitStack()

    async def run(self, feed: Feed, keyboard: TextIO) -> int:
        """Draws until somebody wants to leave; the exit code of that."""
        self._feed = feed
        loop = asyncio.get_running_loop()
        descriptor = keyboard.fileno()
        tasks = [asyncio.create_task(feed.run()), asyncio.create_task(self._tick())]
        try:
            # Before the terminal is changed: from then on no signal may end this without changing it back.
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._end, 0)
            loop.add_signal_handler(signal.SIGINT, self._end, 130)
            loop.add_signal_handler(signal.SIGWINCH, self.redraw)
            loop.add_signal_handler(signal.SIGTSTP, self._stop, descriptor)
            self._enter(descriptor)
            loop.add_reader(descriptor, self._read, descriptor)
            await self._ended.wait()
        finally:
            loop.remove_reader(descriptor)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._terminal.close()
        return self._exit_code

    def redraw(self) -> None:
        """Draws what is known now."""
        if self._screen is None or self._feed is None:
            return
        width, height = self._console.size
        view, seen = self._view, self._feed.seen()
        lines = [encodable(line, self._console.encoding) for line in screen(seen, view, width, height)]
        self._screen.update(Group(*[_line(line) for line in lines]), refresh=True)

    def _enter(self, descriptor: int) -> None:
        """Takes the terminal: single keys, a screen of its own, no cursor."""
        self._terminal = ExitStack()
        self._terminal.enter_context(single_keys(descriptor))
        self._screen = LiveScreen(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._terminal.enter_context(self._screen)
        self.redraw()

    def _stop(self, descriptor: int) -> None:
        """Ctrl-Z: gives the terminal back, stops, and takes it again when the shell says so."""
        self._terminal.close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter(descriptor)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end(0)
        for key in keys_in(data):
            self._press(key)

    def _press(self, key: str) -> None:
        if key in QUIT:
            self._end(0)
        elif self._feed is not None:
            width, height = self._console.size
            lowest = most_offset(self._feed.seen(), self._view, width, height)
            self._view = after(self._view, key, max(1, height - 3), lowest)
            self.redraw()

    def _end(self, exit_code: int) -> None:
        if not self._ended.is_set():
            self._exit_code = exit_code
            self._ended.set()

    async def _tick(self) -> None:
        while True:
            begun = self._clock.steady()
            self.redraw()
            took = self._clock.steady() - begun  # ten thousand engines take longer, and need not be drawn as often
            await self._clock.sleep_until(self._clock.steady() + max(REDRAW_SECONDS, 10 * took))


def _line(line: Text) -> Text:
    """Cropped and never folded by the console: it was made to fit."""
    line.no_wrap, line.overflow, line.end = True, "crop", "\n"
    return line
