"""Which processes form a server and which target gets it: trees, ports, patterns, pids, doubts that are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sources.ports import command_port, listening_ports, rank_port
from agent.sources.process_table import KnownProcess
from agent.sources.servers import Server, TargetHint, find_servers, is_relevant, match_servers
from agent.sources.titles import parse_title
from tests.sources.fake_host import FakeHost


def process(pid: int, command: str, parent: int = 1, start: int | None = None) -> KnownProcess:
    words = tuple(command.split())
    comm = words[0].rpartition("/")[2][:15]
    title = parse_title(words, comm)
    relevant = is_relevant(title)
    return KnownProcess(
        pid=pid,
        inode=pid,
        start_ticks=pid if start is None else start,
        parent_pid=parent,
        comm=comm,
        title=title,
        command_line=words if relevant else (),
        relevant=relevant,
    )


def table(*processes: KnownProcess) -> dict[int, KnownProcess]:
    return {one.pid: one for one in processes}


def no_sockets(_pids: object) -> None:
    return None


def trees(*processes: KnownProcess) -> dict[int, list[int]]:
    return {server.root.pid: sorted(one.pid for one in server.members) for server in find_servers(table(*processes))}


def match(hints: dict[str, TargetHint], *processes: KnownProcess) -> dict[str, int | str]:
    matches = match_servers(hints, find_servers(table(*processes)), {}, no_sockets)
    return {name: one if isinstance(one, str) else one[0].root.pid for name, one in matches.items()}


PREFILL = (
    process(10, "vllm serve m --port 8100"),
    process(11, "VLLM::EngineCore", 10),
    process(12, "VLLM::Worker", 11),
)
DECODE = (
    process(20, "vllm serve m --port=8200 -dp 2"),
    process(21, "VLLM::EngineCore_DP0", 20),
    process(22, "VLLM::EngineCore_DP1", 20),
    process(23, "VLLM::DPCoordinator", 20),
    process(24, "VLLM::APIServer_0", 20),
    process(25, "python", 21),
)


def test_several_servers_on_a_host_are_told_apart() -> None:
    others = (process(1, "init", 0), process(5, "bash"), process(6, "sleep", 5))
    assert trees(*others, *PREFILL, *DECODE) == {10: [10, 11, 12], 20: [20, 21, 22, 23, 24, 25]}


def test_a_host_without_vllm_has_no_servers() -> None:
    assert trees(process(1, "init", 0), process(5, "python3 web.py")) == {}


def test_children_with_lower_pids_than_their_parents_belong_to_the_tree() -> None:
    server, core = process(50, "vllm serve m", start=1), process(3, "VLLM::EngineCore", 50, start=2)
    assert trees(server, core) == {50: [3, 50]}


def test_a_parent_that_is_younger_than_its_child_is_another_process_with_its_pid() -> None:
    server = process(10, "vllm serve m", start=500)
    assert trees(server, process(11, "VLLM::EngineCore", 10, start=400)) == {10: [10], 11: [11]}
    assert trees(server, process(12, "python", 10, start=400)) == {10: [10]}


def test_a_ring_of_parents_ends() -> None:
    one, two = process(10, "VLLM::EngineCore", 11, start=5), process(11, "VLLM::Worker", 10, start=5)
    assert sorted(pid for members in trees(one, two).values() for pid in members) == [10, 11]


def test_a_shell_above_a_server_is_not_part_of_it() -> None:
    assert trees(process(5, "sh -c vllm"), process(10, "vllm serve m", 5)) == {10: [10]}


def test_a_copy_that_has_not_taken_its_title_yet_belongs_to_its_parents_server() -> None:
    launcher, copy = process(10, "vllm serve m"), process(11, "vllm serve m", 10)
    assert trees(launcher, copy, process(12, "VLLM::Worker", 11)) == {10: [10, 11, 12]}


def test_a_python_launcher_of_somebodys_own_is_the_root_and_brings_only_vllms_branches() -> None:
    tree = trees(
        process(5, "python3 supervisor.py"),
        process(6, "python3 exporter.py", 5),
        process(10, "VLLM::EngineCore_DP0", 5),
        process(11, "VLLM::Worker", 10),
        process(12, "gcc", 11),
        process(20, "VLLM::EngineCore_DP1", 5),
    )
    assert tree == {5: [5, 10, 11, 12, 20]}


def test_a_ranked_api_server_is_a_server_of_its_own_with_a_port_counted_up() -> None:
    processes = (
        process(10, "vllm serve m --port 9000 --data-parallel-multi-port-external-lb"),
        process(11, "VLLM::APIServer_DP0", 10),
        process(12, "VLLM::APIServer_DP1", 10),
        process(13, "VLLM::EngineCore_DP1", 12),
    )
    assert trees(*processes)[12] == [12, 13]
    hints = {"decode-0": TargetHint(port=9000), "decode-1": TargetHint(port=9001)}
    assert match(hints, *processes) == {"decode-0": 11, "decode-1": 12}


@pytest.mark.parametrize(
    ("options", "rank", "port"),
    [
        ("--port 9000", 3, 9003),
        ("--port 9000 --data-parallel-start-rank 8", 9, 9001),
        ("--port 9000 --node-rank 1 --data-parallel-size-local 4", 6, 9002),
        ("--port 9000 --data-parallel-start-rank 8", 2, None),
        ("--port 9000 --node-rank x", 2, None),
        ("--config c.yaml", 2, None),
    ],
)
def test_a_ranks_port_counts_from_the_first_rank_of_its_node(options: str, rank: int, port: int | None) -> None:
    assert rank_port(["vllm", "serve", "m", *options.split()], rank) == port


def test_targets_are_matched_by_the_port_of_their_command_line() -> None:
    hints = {"decode-0": TargetHint(port=8200), "prefill-0": TargetHint(port=8100)}
    assert match(hints, *PREFILL, *DECODE) == {"decode-0": 20, "prefill-0": 10}


@pytest.mark.parametrize(
    ("command", "port"),
    [
        ("vllm serve m", 8000),
        ("vllm serve m --port 1 --port 2", 2),
        ("vllm serve m --port=8001", 8001),
        ("python -m vllm.entrypoints.openai.api_server --port 8002", 8002),
        ("vllm serve m --config c.yaml", None),
        ("vllm serve m --config c.yaml --port 8003", 8003),
        ("vllm serve m --headless --port 8004", None),
        ("vllm serve m --uds /tmp/x", None),
        ("vllm serve m --port", 8000),
        ("vllm serve m --port many", None),
        ("python serve.py --port 8005", None),
        ("python -m dynamo.vllm", None),
    ],
)
def test_the_port_of_a_command_line(command: str, port: int | None) -> None:
    assert command_port(command.split()) == port


def test_a_socket_table_with_a_broken_line_gives_its_other_ports(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.process(10, ["python3", "serve.py"])
    host.listen(10, 9701)
    table_file = host.proc / "10" / "net" / "tcp"
    table_file.write_text(table_file.read_text() + "1: x y 0A a b c d e zz\n2: short\n")
    assert listening_ports(str(host.proc), [10]) == frozenset((9701,))
    assert listening_ports(str(host.proc), [11]) is None
    host.process(12, ["python3"])
    assert listening_ports(str(host.proc), [12]) == frozenset()


def test_sockets_decide_where_the_command_line_does_not() -> None:
    servers = find_servers(
        table(
            process(10, "python -m dynamo.vllm"),
            process(20, "python -m dynamo.vllm"),
            process(21, "VLLM::EngineCore", 20),
        )
    )
    ports = {10: frozenset((9701, 5600)), 20: frozenset((9702, 5700))}
    matches = match_servers(
        {"a": TargetHint(port=9702)}, servers, {}, lambda pids: frozenset().union(*(ports[pid] for pid in pids))
    )
    assert isinstance(matches["a"], list)
    assert matches["a"][0].root.pid == 20


def test_a_pattern_decides_over_the_port_and_the_port_over_a_pattern_that_fits_several() -> None:
    by_pattern = {"a": TargetHint(port=9999, command_pattern=r"--port 8100\b")}
    assert match(by_pattern, *PREFILL, *DECODE) == {"a": 10}
    by_both = {"a": TargetHint(port=8200, command_pattern="serve m")}
    assert match(by_both, *PREFILL, *DECODE) == {"a": 20}


def test_a_pid_anywhere_in_the_tree_decides() -> None:
    assert match({"a": TargetHint(pid=22, port=8100)}, *PREFILL, *DECODE) == {"a": 20}


def test_a_pid_that_is_not_a_servers_is_refused() -> None:
    found = match({"a": TargetHint(pid=17)}, process(17, "bash"), *PREFILL)
    assert found["a"] == "target process not found; memory not observed (looked for pid 17)"


def test_a_pid_whose_command_line_does_not_fit_is_refused() -> None:
    found = match({"a": TargetHint(pid=11, command_pattern="port=8200")}, *PREFILL, *DECODE)
    assert "target process not found" in str(found["a"])


def test_a_single_target_without_hints_gets_the_only_server_and_nothing_when_there_are_two() -> None:
    assert match({"a": TargetHint()}, *PREFILL) == {"a": 10}
    assert "2 servers fit" in str(match({"a": TargetHint()}, *PREFILL, *DECODE)["a"])
    assert "not found" in str(match({"a": TargetHint(), "b": TargetHint()}, *PREFILL)["a"])


def test_two_servers_on_one_port_are_not_guessed_between() -> None:
    found = match({"a": TargetHint(port=8000)}, process(10, "vllm serve m"), process(20, "vllm serve n"))
    assert found["a"] == "2 servers fit (port 8000: pids 10, 20); memory not observed. Give pid or command_pattern"


def test_of_two_servers_on_one_port_the_one_already_matched_is_kept() -> None:
    servers = find_servers(table(process(10, "vllm serve m"), process(20, "vllm serve n")))
    matches = match_servers({"a": TargetHint(port=8000)}, servers, {(20, 20): "a"}, no_sockets)
    assert [server.root.pid for server in matches["a"] if isinstance(server, Server)] == [20]


def test_one_server_claimed_by_two_targets_is_given_to_neither() -> None:
    found = match({"here": TargetHint(port=8100), "elsewhere": TargetHint(port=8100)}, *PREFILL)
    assert "fits target elsewhere as well" in str(found["here"])
    assert "fits target here as well" in str(found["elsewhere"])


def test_workers_left_by_a_dead_launcher_stay_with_their_target() -> None:
    orphan = process(12, "VLLM::Worker", 11)
    servers = find_servers(table(orphan, process(30, "vllm serve m --port 8100")))
    matches = match_servers({"a": TargetHint(port=8100)}, servers, {(12, 12): "a"}, no_sockets)
    assert [server.root.pid for server in matches["a"] if isinstance(server, Server)] == [30, 12]
    alone = match_servers({"a": TargetHint(port=8100)}, find_servers(table(orphan)), {(12, 12): "a"}, no_sockets)
    assert [server.root.pid for server in alone["a"] if isinstance(server, Server)] == [12]
