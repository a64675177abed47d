"""What one round costs. In: nothing. Out: CPU per scrape round of the story's topology, by room, and of a state.

    python -m bench.round_bench

Four prefill targets with 4 engines each and one decode target with 8 are served on loopback and fetched as pdwatch does
it; the pages change as those of a fleet under load. CPU times are this process's own, medians over the rounds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from aiohttp import web

from agent.config import config_from_flags
from agent.indicators.pools import pool_state
from agent.indicators.system import system_state
from agent.model import Observation, PageObservation
from agent.outputs.state_json import state_text
from agent.sources.http import PageSource
from agent.state import State
from agent.watch import Watch
from bench.reader_bench import consecutive

ENGINES = {"prefill-0": 4, "prefill-1": 4, "prefill-2": 4, "prefill-3": 4, "decode-0": 8}
ROUNDS, SETTLING, INTERVAL_SECONDS = 80, 40, 5.0
BUSY_SHARE = 0.26
"""Share of requests' families that move per page: about a quarter of all lines."""


def main() -> None:
    random.seed(1)
    pages = {
        name: consecutive(engines, index, BUSY_SHARE, ROUNDS) for index, (name, engines) in enumerate(ENGINES.items())
    }
    fetching = asyncio.run(fetch_seconds(pages))
    watch = Watch(
        config_from_flags(
            prefill=[f"http://127.0.0.1:1{i}" for i in range(4)], decode=["http://127.0.0.1:20"], routers=[]
        )
    )
    names = dict(zip(ENGINES, watch.windows.targets, strict=True))
    reading, windows = [], []
    for turn in range(ROUNDS):
        now = 1e9 + INTERVAL_SECONDS * turn
        read = windowed = 0.0
        for name, target in names.items():
            reader = watch._readers[target]
            begin = time.process_time()
            reading_of = reader.read(now, target, pages[name][turn])
            between = time.process_time()
            watch.windows.take(reading_of)
            read += between - begin
            windowed += time.process_time() - between
        if turn >= SETTLING:
            reading.append(read)
            windows.append(windowed)
    now = 1e9 + INTERVAL_SECONDS * (ROUNDS - 1)
    facts = watch.facts.pools(now - 300, now)
    indicators = [timed(lambda: [pool_state(pool) for pool in facts])[0] for _ in range(20)]
    systems = [timed(lambda: system_state(facts, "serial", (16384, 262144)))[0] for _ in range(20)]
    states = [timed(lambda: state_anew(watch, now))[0] for _ in range(20)]
    texts = [timed(lambda: state_text(state_anew(watch, now)))[0] for _ in range(20)]
    evaluations = [timed(lambda: evaluated_anew(watch, now))[0] for _ in range(20)]
    parts = {
        "fetching": fetching,
        "reading": median(reading),
        "windows": median(windows),
        "indicators": median(indicators) + median(systems),
    }
    whole = sum(parts.values())
    print(f"one round: 5 targets, 24 engines, {whole * 1e3:.1f} ms of CPU")
    for name, seconds in parts.items():
        print(f"  {name:10} {seconds * 1e3:6.2f} ms  {100 * seconds / whole:3.0f} %")
    without, share = 1e3 * (whole - fetching), 100 * whole / INTERVAL_SECONDS
    print(f"  without fetching {without:.1f} ms; at 5 s a round {share:.2f} % of a core")
    print(f"an evaluation: {median(evaluations) * 1e3:.1f} ms")
    print(f"the whole state: {median(states) * 1e3:.1f} ms, as JSON {median(texts) * 1e3:.1f} ms")


def state_anew(watch: Watch, now: float) -> State:
    """A state as after new pages: nothing that was found before is lent to it."""
    watch._findings.forget()
    return watch.state(now)


def evaluated_anew(watch: Watch, now: float) -> object:
    watch._findings.forget()
    return watch.evaluate(now)


def timed(action: Callable[[], object]) -> tuple[float, object]:
    begin = time.process_time()
    made = action()
    return time.process_time() - begin, made


async def serve(body: bytes, request: web.Request) -> web.Response:
    """One page from memory."""
    del request
    return web.Response(body=body, content_type="text/plain")


async def fetch_seconds(pages: dict[str, list[str]]) -> float:
    """CPU of fetching the five pages once; serving them from memory in the same process is counted with it."""
    bodies = {name: texts[-1].encode() for name, texts in pages.items()}

    runners, urls = [], {}
    for name, body in bodies.items():
        app = web.Application()
        app.router.add_get("/metrics", partial(serve, body))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        urls[name] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = config_from_flags(
        prefill=[url for name, url in urls.items() if name != "decode-0"], decode=[urls["decode-0"]], routers=[]
    )
    seen: list[Observation] = []
    done = asyncio.Event()

    def emit(observation: Observation) -> None:
        seen.append(observation)
        if len(seen) >= 5 * 6:
            done.set()

    source = PageSource(config, emit)
    begin = time.process_time()
    task = asyncio.create_task(source.run())
    await done.wait()
    spent = time.process_time() - begin
    source.stop()
    task.cancel()
    for runner in runners:
        await runner.cleanup()
    failed = [observation for observation in seen if not isinstance(observation, PageObservation)]
    if failed:
        raise SystemExit(f"fetching failed: {failed[0]}")
    return spent / (len(seen) / 5)


if __name__ == "__main__":
    main()
