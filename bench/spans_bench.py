"""What 2,000 spans a second cost. In: nothing. Out: CPU, memory, answers' times and drops of receiver and indicators.

    python -m bench.spans_bench [--seconds 60] [--rate 2000]

Another process plays 8 prefill and 8 decode servers, whose SDKs send batches of up to 512 spans (uncompressed, as
vLLM does); this one receives, joins and adds up, and is asked for everything over the last five minutes once a second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from agent.config import Config, Pool, Target
from agent.indicators.requests import Requests
from agent.model import Observation, Span, SpansObservation
from agent.sources.traces import TraceReceiver
from tests.sources.otlp_bodies import PROTOBUF, protobuf_body
from tests.spans import decode_span, prefill_span

SERVERS = 8
BATCH = 512
CONFIG = Config(
    pools=(
        Pool("prefill", "prefill", tuple(Target(f"prefill-{number}") for number in range(SERVERS))),
        Pool("decode", "decode", tuple(Target(f"decode-{number}") for number in range(SERVERS))),
    )
)


def legs(number: int, now: float, chance: random.Random) -> tuple[tuple[str, Span], tuple[str, Span]]:
    """One request that ends about now: contexts of 1K to 256K tokens, log-normal times."""
    length = int(2 ** chance.uniform(10, 18))
    e2e, ttft = chance.lognormvariate(0, 0.7), chance.lognormvariate(-1, 0.7)
    tpot, tokens = chance.lognormvariate(-4.1, 0.3), chance.randint(2, 2000)
    name, trace = f"cmpl-{chance.getrandbits(128):032x}-0", f"{chance.getrandbits(128):032x}"
    begin = now - e2e - 0.01 - ttft - tpot * (tokens - 1)
    first = prefill_span(name, begin, e2e, trace, length)
    second = decode_span(name, begin + e2e + 0.01, ttft, tokens, tpot, trace, length)
    return (f"prefill-{number % SERVERS}", first), (f"decode-{number // SERVERS % SERVERS}", second)


def batches(rate: float, seconds: float) -> list[tuple[float, bytes]]:
    """(seconds after the start, body) of everything that the servers send, in order."""
    chance, begin = random.Random(1), time.time()
    waiting: dict[str, list[Span]] = {}
    made = []
    for number in range(int(rate * seconds / 2)):
        passed = 2 * number / rate
        for target, span in legs(number, begin + passed, chance):
            waiting.setdefault(target, []).append(span)
            if len(waiting[target]) == BATCH:
                made.append((passed, protobuf_body(target, *waiting.pop(target))))
    made += [(seconds, protobuf_body(target, *spans)) for target, spans in waiting.items()]
    return made


async def send(url: str, rate: float, seconds: float) -> None:
    """Sends every batch when it is due; prints answers' times in ms."""
    due, times, statuses = batches(rate, seconds), [], set()
    begin = time.perf_counter()
    async with aiohttp.ClientSession() as session:
        for after, body in due:
            await asyncio.sleep(max(0.0, begin + after - time.perf_counter()))
            sent = time.perf_counter()
            async with session.post(url, data=body, headers={"Content-Type": PROTOBUF}) as answer:
                statuses.add(answer.status)
            times.append(1e3 * (time.perf_counter() - sent))
    cuts = statistics.quantiles(times, n=100)
    size = sum(len(body) for _, body in due) / (rate * seconds)
    print(f"{len(times)} bodies in {time.perf_counter() - begin:.0f} s, {size:.0f} bytes a span, answers", end=" ")
    print(f"{sorted(statuses)}: median {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms")


async def receive(rate: float, seconds: float) -> None:
    requests = Requests(CONFIG)
    taking = asking = 0.0

    def emit(observation: Observation) -> None:
        nonlocal taking
        begin = time.process_time()
        if isinstance(observation, SpansObservation):
            requests.take(observation)
        taking += time.process_time() - begin

    receiver = TraceReceiver(CONFIG, emit)
    app = web.Application()
    app.add_routes(receiver.routes())
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    gc.collect()
    before, cpu = resident_mib(), time.process_time()
    command = (sys.executable, "-m", "bench.spans_bench", "--send", url, f"--seconds={seconds}", f"--rate={rate}")
    sender = await asyncio.create_subprocess_exec(*command)
    lags, questions, longest = [], 0, 0.0
    while sender.returncode is None:
        due = time.perf_counter() + 1.0
        await asyncio.sleep(1.0)
        lags.append(time.perf_counter() - due)
        asked = time.process_time()
        view = requests.system(time.time() - 300.0, time.time())
        _ = view.system_ttft(), view.parts(), view.bands(), view.pairs(), view.slowest(), view.tpot(contract=True)
        _ = view.pool("prefill"), view.pool("decode"), view.met_share()
        longest = max(longest, time.process_time() - asked)
        asking += time.process_time() - asked
        questions += 1
    used, counts = time.process_time() - cpu, receiver.counts
    print(f"{counts.spans} spans, {rate:.0f} a second: {100 * used / seconds:.1f} % of one core, of which")
    print(f"  receiving and decoding {1e6 * (used - taking - asking) / counts.spans:.1f} us a span,")
    print(f"  joining and adding up {1e6 * taking / counts.spans:.1f} us a span,")
    print(f"  everything over five minutes {1e3 * asking / questions:.0f} ms (longest {1e3 * longest:.0f} ms)")
    print(f"loop lag at most {1e3 * max(lags):.0f} ms; memory {before:.0f} -> {resident_mib():.0f} MiB")
    print(
        f"dropped {counts.over_rate + counts.over_size + counts.malformed + counts.unknown_service}, {counts.refused}"
    )
    print({name: count for name, count in requests.counts().items() if count})
    await runner.cleanup()


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--rate", type=float, default=2000.0, help="spans per second")
    arguments.add_argument("--send", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.send:
        asyncio.run(send(given.send, given.rate, given.seconds))
    else:
        asyncio.run(receive(given.rate, given.seconds))


if __name__ == "__main__":
    main()
