"""What a round of the process reader costs on a host with many processes.

Starts N sleeping processes and one fake vLLM server of 8 engine cores and 16 workers, then reads. Prints wall and CPU
milliseconds of the first round (everything is new), of quiet rounds, of rounds in which all are young (a host
that was just started) and of rounds after the kernel emptied its cache of /proc (every inode changed).

    python -m bench.processes_bench [--processes 2000] [--rounds 50]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent.sources.processes import ProcessReader, TargetHint

PORT = 58_300

LAUNCHER = """
import subprocess, sys
titles = ["VLLM::DPCoordinator"] + ["VLLM::APIServer_%d" % r for r in range(8)]
titles += ["VLLM::EngineCore_DP%d" % r for r in range(8)]
titles += ["VLLM::Worker_DP%d_TP%d" % (r, t) for r in range(8) for t in range(2)]
children = [subprocess.Popen([title, "600"], executable="/bin/sleep") for title in titles]
print("ready", flush=True)
sys.stdin.read()
for child in children: child.kill()
"""


def measure(name: str, rounds: int, one: Callable[[], object], before: Callable[[], object] = lambda: None) -> None:
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(rounds):
        before()
        started, used = time.perf_counter(), time.thread_time()
        one()
        wall.append((time.perf_counter() - started) * 1e3)
        cpu.append((time.thread_time() - used) * 1e3)
    print(
        f"{name:34s} wall ms: median {statistics.median(wall):6.1f}, largest {max(wall):6.1f}"
        f"   CPU ms: median {statistics.median(cpu):6.1f}, largest {max(cpu):6.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    sleepers = [os.posix_spawn("/bin/sleep", ["sleep", "600"], {}) for _ in range(options.processes)]
    try:
        with tempfile.TemporaryDirectory() as directory:
            script = Path(directory, "vllm")
            script.write_text(LAUNCHER)
            with subprocess.Popen(
                [sys.executable, str(script), "serve", "m", "--port", str(PORT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as launcher:
                assert launcher.stdout is not None
                launcher.stdout.readline()
                read_rounds(options.rounds)
                launcher.communicate()
    finally:
        for pid in sleepers:
            os.kill(pid, signal.SIGKILL)
        for pid in sleepers:
            os.waitpid(pid, 0)
    return 0


def read_rounds(rounds: int) -> None:
    reader = ProcessReader(targets={"decode-0": TargetHint(port=PORT)})
    now = time.time()
    later = now + 3600  # at which no process is young any more
    measure("first round", 1, lambda: reader.read(later))
    (observation,) = reader.read(later)
    table = reader._table.processes
    print(f"{len(table)} processes visible, {len(observation.processes)} of them the server's")
    assert len(observation.processes) == 34, observation.problems
    measure("quiet round", rounds, lambda: reader.read(later))

    def empty_cache() -> None:
        for process in table.values():
            process.inode = -1

    measure("round after an emptied cache", rounds, lambda: reader.read(later), empty_cache)
    measure("round with every process young", max(3, rounds // 10), lambda: reader.read(now))


if __name__ == "__main__":
    raise SystemExit(main())
