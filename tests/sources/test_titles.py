"""Who a process is by its title: kinds, ranks, engines, the name cut to 15 bytes, launchers and look-alikes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.titles import engine_of, parse_title, server_program


@pytest.mark.parametrize(
    ("title", "kind", "ranks"),
    [
        ("VLLM::EngineCore", "engine_core", ()),
        ("VLLM::EngineCore_DP3", "engine_core", (("DP", 3),)),
        ("VLLM::EngineCore_3", "engine_core", (("", 3),)),
        ("VLLM::Worker", "worker", ()),
        ("VLLM::Worker_DP1_PP0_TP2_EP10", "worker", (("DP", 1), ("PP", 0), ("TP", 2), ("EP", 10))),
        ("VLLM::Worker_PCP1_DCP2", "worker", (("PCP", 1), ("DCP", 2))),
        ("VLLM::APIServer_7", "api_server", (("", 7),)),
        ("VLLM::APIServer_DP2", "api_server", (("DP", 2),)),
        ("VLLM::DPCoordinator", "coordinator", ()),
        ("my-fleet::EngineCore_DP0", "engine_core", (("DP", 0),)),
    ],
)
def test_a_title_names_kind_and_ranks(title: str, kind: str, ranks: tuple[tuple[str, int], ...]) -> None:
    parsed = parse_title((title,), title[:15])
    assert (parsed.title, parsed.kind, parsed.ranks, parsed.complete) == (title, kind, ranks, True)


@pytest.mark.parametrize(
    ("comm", "kind"),
    [
        ("VLLM::EngineCor", "engine_core"),
        ("VLLM::Worker_DP", "worker"),
        ("VLLM::Worker_TP", "worker"),
        ("VLLM::APIServer", "api_server"),
        ("VLLM::DPCoordin", "coordinator"),
        ("longprefix::Eng", "engine_core"),
    ],
)
def test_a_name_cut_to_15_bytes_gives_the_kind_and_admits_that_ranks_may_be_missing(comm: str, kind: str) -> None:
    parsed = parse_title((), comm)
    assert (parsed.title, parsed.kind, parsed.complete) == (comm, kind, False)
    assert engine_of(parsed, ()) is None


def test_a_short_name_is_complete() -> None:
    assert parse_title((), "VLLM::Worker").complete


@pytest.mark.parametrize(
    "comm", ["VLLM::EngineCo", "std::Workshop", "VLLM::", "::EngineCore_DP", "python3", "VLLM::Engineering"]
)
def test_other_names_with_colons_are_nobody(comm: str) -> None:
    assert parse_title((), comm[:15]).kind == "other"


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve model --port 8001",
        "/usr/local/bin/vllm serve model",
        "python3 /usr/local/bin/vllm serve model",
        "/opt/venv/bin/python3.12 -u -X faulthandler /opt/venv/bin/vllm serve model",
        "python -m vllm.entrypoints.openai.api_server --model m",
        "python -m vllm.entrypoints.cli.main serve m",
        "python -m vllm serve m",
    ],
)
def test_launchers_are_recognised_however_they_were_started(command: str) -> None:
    parsed = parse_title(command.split(), "vllm")
    assert (parsed.title, parsed.kind) == ("vllm serve", "launcher")


def test_a_dynamo_worker_is_a_launcher_of_its_own_name() -> None:
    assert parse_title(["python3", "-m", "dynamo.vllm", "--model", "m"], "python3").title == "dynamo.vllm"


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "vllm serve model --port 8001"],
        ["grep", "vllm", "serve"],
        ["tini", "--", "vllm", "serve", "model"],
        ["vim", "vllm", "serve"],
        ["vllm", "bench", "serve"],
        ["vllm"],
        ["python3", "-c", "import vllm", "serve"],
        ["python3", "-m", "vllm.entrypoints.cli.main", "bench"],
        ["python3", "-m", "pytest", "vllm", "serve"],
        ["python3"],
        ["python3", "-m"],
        [],
    ],
)
def test_what_only_names_a_server_is_none(command: list[str]) -> None:
    assert server_program(command) is None


def test_a_title_never_holds_arguments() -> None:
    parsed = parse_title(["vllm", "serve", "model", "--api-key", "secret"], "vllm")
    assert "secret" not in parsed.title
    helper = parse_title(["/opt/python", "-c", "import os; secret()"], "python")
    assert helper.title == "python"


def test_helpers_get_a_short_stable_name() -> None:
    tracker = ["python", "-c", "from multiprocessing.resource_tracker import main;main(41)"]
    assert parse_title(tracker, "python").title == "multiprocessing.resource_tracker"


def test_a_dense_data_parallel_worker_takes_its_rank_from_its_engine_core() -> None:
    worker, core = parse_title(("VLLM::Worker_TP1",), ""), parse_title(("VLLM::EngineCore_DP3",), "")
    assert engine_of(worker, (core, parse_title(("vllm", "serve", "m"), "vllm"))) == "3"


def test_a_worker_with_a_rank_of_its_own_keeps_it() -> None:
    worker, core = parse_title(("VLLM::Worker_DP1_TP0",), ""), parse_title(("VLLM::EngineCore_DP1",), "")
    assert engine_of(worker, (core,)) == "1"


def test_a_lone_engine_is_engine_zero_and_so_are_its_workers_and_helpers() -> None:
    core = parse_title(("VLLM::EngineCore",), "")
    assert engine_of(core, ()) == "0"
    assert engine_of(parse_title(("VLLM::Worker",), ""), (core,)) == "0"
    assert engine_of(parse_title(("python", "-c", "x"), "python"), (parse_title(("VLLM::Worker",), ""), core)) == "0"


def test_below_a_ranked_api_server_an_engine_core_inherits_the_rank() -> None:
    core, api = parse_title(("VLLM::EngineCore",), ""), parse_title(("VLLM::APIServer_DP2",), "")
    assert engine_of(core, (api,)) == "2"
    assert engine_of(parse_title(("VLLM::Worker_TP0",), ""), (core, api)) == "2"


def test_processes_that_serve_all_engines_belong_to_none() -> None:
    for title in ("VLLM::APIServer_1", "VLLM::DPCoordinator"):
        assert engine_of(parse_title((title,), ""), (parse_title(("vllm", "serve"), "vllm"),)) is None


def test_a_worker_whose_engine_is_not_visible_belongs_to_an_unknown_one() -> None:
    assert engine_of(parse_title(("VLLM::Worker_TP1",), ""), ()) is None


@given(st.lists(st.text()), st.text())
def test_any_command_line_has_a_title(command_line: list[str], comm: str) -> None:
    assert parse_title(command_line, comm).kind in (
        "engine_core",
        "worker",
        "api_server",
        "coordinator",
        "launcher",
        "other",
    )
