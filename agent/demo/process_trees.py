"""Real processes beside the simulated servers. In: the fleet, again and again. Out: processes under vLLM's titles.

Each server that is up has a small tree on this host: its launcher, with the port in its command line, and one process
for each engine. They hold next to nothing, except one whose heap really grows while the incident `leak` lasts. Their
life is the server's: a restart ends them and begins anew. Where they cannot be started the fleet goes on without.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent.demo import child
from agent.demo.fleet import Fleet
from agent.demo.server import Server

LEAKING_TARGET = "decode-0"
LEAKING_TITLE = "VLLM::EngineCore_DP0"
LEAK_BYTES_PER_HOUR = 16.0 * (1 << 20) * 60
"""16 MiB a minute: enough to be told from noise within minutes, and a quarter of an hour to the cap."""
END_SECONDS = 5.0


def titles(server: Server) -> list[str]:
    """The titles below a server's launcher; with one GPU for each engine, vLLM has no workers apart from them."""
    engines = [f"VLLM::EngineCore_DP{rank}" for rank in range(server.pool.engines)]
    return ["VLLM::DPCoordinator", *engines]


def command_line(server: Server, port: int) -> str:
    """What the launcher carries: words with one space between them."""
    pool, model = server.pool, server.topology.model
    words = ["vllm serve", model, "--port", str(port), "--data-parallel-size", str(pool.engines)]
    return " ".join(words)


class ProcessTree:
    """One server's processes. `life`: the life of the server that they belong to. Raises OSError."""

    def __init__(self, server: Server, port: int) -> None:
        self.life = server.lives
        self.titles = titles(server)
        self._told: dict[str, int] = {}
        # The interpreter without site packages: a process of a few megabytes.
        program = [sys.executable, "-I", "-S", str(Path(child.__file__)), command_line(server, port), *self.titles]
        # A session of its own, so that Ctrl-C reaches pdwatch alone, which then ends the tree.
        self.launcher = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
            program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, bufsize=0
        )

    def hold(self, title: str, size: int) -> None:
        """Lets one process hold so many bytes of heap, rounded down."""
        if self._told.get(title, 0) == size or self.launcher.stdin is None:
            return
        self._told[title] = size
        with suppress(BrokenPipeError):  # it has ended, which `exit_code` says
            self.launcher.stdin.write(f"{self.titles.index(title)} {size}\n".encode())

    @property
    def exit_code(self) -> int | None:
        """None while the launcher runs."""
        return self.launcher.poll()

    def end(self) -> None:
        """Ends all of them: their input is over."""
        if self.launcher.stdin is not None:
            self.launcher.stdin.close()
        try:
            self.launcher.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()


class ProcessTrees:
    """The trees of all servers. `ports`: where each server answers. `trouble`: why there are none, for people."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._trees: dict[str, ProcessTree] = {}
        self.trouble = ""

    def follow(self, fleet: Fleet) -> None:
        """Brings every tree to what its server is now, and the leaking process to its size."""
        if self.trouble:
            return
        for name, server in fleet.servers.items():
            tree = self._trees.get(name)
            if tree is not None and (not server.up or tree.life != server.lives):
                tree.end()
                del self._trees[name]
                tree = None
            if tree is None and server.up:
                try:
                    tree = self._trees[name] = ProcessTree(server, self._ports[name])
                except OSError as error:
                    self._give_up(f"no process can be started here ({error.strerror or error})")
                    return
            if tree is not None and tree.exit_code is not None:
                why = "cannot take their names here" if tree.exit_code == child.UNTITLED else "have ended by themselves"
                self._give_up(f"the processes of {name} {why}")
                return
        tree = self._trees.get(LEAKING_TARGET)
        if tree is not None:
            tree.hold(LEAKING_TITLE, self.leaked_bytes(fleet))

    @staticmethod
    def leaked_bytes(fleet: Fleet) -> int:
        """What the leaking process is to hold now: the growth of the latest leak, up to the cap."""
        leaks = [leak for leak in fleet.conditions.leaks if leak.title == LEAKING_TITLE]
        grown = leaks[-1].grown_bytes(fleet.now, fleet.server(LEAKING_TARGET).started) if leaks else 0.0
        return min(int(grown), child.MOST_BYTES)

    @property
    def pids(self) -> dict[str, int]:
        """The launcher of each server."""
        return {name: tree.launcher.pid for name, tree in self._trees.items()}

    def end(self) -> None:
        """Ends all processes."""
        for tree in self._trees.values():
            if tree.launcher.stdin is not None:
                tree.launcher.stdin.close()  # all at once, so that they end side by side
        for tree in self._trees.values():
            tree.end()
        self._trees = {}

    def _give_up(self, why: str) -> None:
        self.end()
        self.trouble = f"The memory watch has nothing to see: {why}."
