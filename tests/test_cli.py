"""The command line: which command does what, what it prints where, and its exit codes."""

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import __version__, runtime
from agent.cli import COMMANDS, main
from agent.config import Config
from agent.sources.recordings import RecordingWriter
from tests.outputs import fleet


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Six rounds of the small fleet, 5 s apart."""
    path = tmp_path / "fleet.jsonl.gz"
    with RecordingWriter(path) as writer:
        for observation in fleet.observations(6):
            writer.write(observation)
    return path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str | Path | float) -> list[dict[str, Any]]:
    assert main(["replay", *map(str, arguments), "--json"]) == 0
    return lines(capsys.readouterr().out)


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == main(["--version"]) == 0
    assert capsys.readouterr().out == f"pdwatch {__version__}\n" * 2


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)


def test_no_command_is_a_usage_error_that_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: pdwatch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"), [("rn", "did you mean run?"), ("zzz", "known are run, check"), ("../x", "known are run, check")]
)
def test_an_unknown_command_names_the_nearest(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: pdwatch {command}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "-c", "/nowhere.yaml"], "/nowhere.yaml"),
        (["run", "--prefill", "ftp://x"], "not an http or https URL"),
        (["run", "--decode", "http://x", "--listen", "nowhere"], "listen"),
        (["run", "--decode", "http://x", "--router", "llmd=http://y"], "did you mean llm-d-epp?"),
        (["record", "-o", "/tmp/never-written.jsonl"], "name what to record"),
        (["replay", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["replay", "x", "--from", "5", "--to", "4"], "--from must be before --to"),
        (["replay", "x", "--from", "5", "--every", "30s"], "give one of them"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_with_exit_code_two(
    arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["03:10", "2026-05-04T03:10:00", "yesterday"])
def test_a_time_without_its_offset_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["replay", "x", "--from", text])
    assert end.value.code == 2
    assert "a time with its offset" in capsys.readouterr().err


def test_run_takes_addresses_and_the_flag_for_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Config | None, str | None]] = []

    def noting(config: Config | None, listen: str | None, load: Callable[[], Config] | None = None) -> int:
        assert load is None, "addresses are no file that could be read again"
        asked.append((config, listen))
        return 0

    monkeypatch.setattr(runtime, "run", noting)
    monkeypatch.setattr("agent.commands.demo.start", lambda listen: noting(None, listen))
    assert (
        main(["run", "--prefill", "http://a:1", "--decode", "http://b:2", "--decode", "http://c:3", "--listen", ":0"])
        == 0
    )
    assert main(["run"]) == 0
    (config, listen), without = asked
    assert config is not None
    assert [target.name for pool in config.pools for target in pool.targets] == ["a:1", "b:2", "c:3"]
    assert (config.listen, listen) == (":0", ":0")
    assert without == (None, None)


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "run", interrupted)
    assert main(["run", "--decode", "http://127.0.0.1:1"]) == 130


def test_replay_gives_the_state_at_the_end_with_the_pools_of_the_names(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = replayed(capsys, recording)
    assert (state["type"], state["at"], state["window_s"]) == ("state", fleet.BEGIN + 25.6, 300)
    assert state["pools"]["decode"]["latency"]["tpot"]["count"] == 10
    assert state["pools"]["prefill"]["role"] == "prefill"
    assert [process["pid"] for process in state["memory"]] == [41]


def test_a_stretch_covers_what_happened_between_the_last_scrapes_at_its_two_ends(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Decode is scraped at 0.5, 5.5, 10.5 ..., with two requests more each time; prefill at 0, 5, 10 ...
    for since, until, decode, prefill in ((5.5, 15.5, 4, 4), (5.6, 15.4, 2, 4), (4.9, 15.5, 6, 6), (5.5, 5.6, 0, 0)):
        (state,) = replayed(capsys, recording, "--from", fleet.BEGIN + since, "--to", fleet.BEGIN + until)
        assert state["window_s"] == pytest.approx(until - since)
        counts = [state["pools"][pool]["latency"]["ttft"]["count"] for pool in ("decode", "prefill")]
        assert counts == [decode, prefill]


def test_a_stretch_without_an_end_goes_to_the_end_of_the_recording(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = replayed(capsys, recording, "--from", fleet.BEGIN + 5.5)
    assert state["pools"]["decode"]["latency"]["ttft"]["count"] == 8


def test_a_stretch_longer_than_what_is_kept_by_default_is_still_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "slow.jsonl"
    with RecordingWriter(path) as writer:
        for observation in fleet.observations(40):
            writer.write(replace(observation, t=fleet.BEGIN + 60 * (observation.t - fleet.BEGIN)))
    (state,) = replayed(capsys, path, "--from", fleet.BEGIN + 60, "--to", fleet.BEGIN + 60 * 190)
    assert state["pools"]["prefill"]["latency"]["ttft"]["count"] == 2 * 38


def test_states_come_at_every_step_of_recorded_time(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states = replayed(capsys, recording, "--every", "10s")
    assert [state["at"] - fleet.BEGIN for state in states] == pytest.approx([10, 20, 25.6])


def test_events_tell_what_began_and_what_ended(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *events, state = replayed(capsys, recording, "--events")
    assert state["type"] == "state"
    assert {event["type"] for event in events} == {"event"}
    told = [(event["change"], event["code"], event["target"]) for event in events if event["kind"] == "problem"]
    assert told.index(("began", "unreachable", "decode-0")) < told.index(("ended", "unreachable", "decode-0"))
    assert ("began", "kv_expired", None) in told
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)


def test_without_json_there_is_a_table(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording), "--events"]) == 0
    text = capsys.readouterr().out
    assert "pool decode (decode), 1 of 1 target up" in text
    assert " kv_expired: " in text


def test_a_configuration_names_the_pools_and_leaves_out_the_other_targets(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pdwatch.yaml"
    path.write_text('pools: {mine: {role: decode, targets: {decode-0: "http://h:8000"}}}', encoding="utf-8")
    (state,) = replayed(capsys, recording, "-c", path)
    assert list(state["pools"]) == ["mine"]
    assert state["pools"]["mine"]["latency"]["ttft"]["count"] == 10
    assert "not in the configuration, left out: prefill-0" in caplog.text


def test_a_broken_line_is_said_with_its_place_and_the_rest_is_replayed(
    recording: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    text = gzip.decompress(recording.read_bytes()).decode().splitlines(keepends=True)
    broken = recording.with_name("broken.jsonl")
    broken.write_text("".join([*text[:2], "{not json\n", *text[2:]]), encoding="utf-8")
    (state,) = replayed(capsys, broken)
    assert state["pools"]["decode"]["latency"]["ttft"]["count"] == 10
    assert caplog.text.count(f"{broken}:3: broken line") == 1


def test_an_empty_recording_is_an_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert main(["replay", str(path)]) == 2
    assert f"{path}: nothing was recorded" in capsys.readouterr().err


def test_the_reader_of_our_output_may_go_away(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - closed by main
    assert main(["replay", str(recording), "--json"]) == 0


def test_a_phase_of_a_real_fleet_is_told_as_its_own_spans_tell_it(
    shared_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet_dir = shared_dir / "recordings" / "real-fleet"
    truth = json.loads((fleet_dir / "truth.json").read_text(encoding="utf-8"))["high"]
    (state,) = replayed(capsys, fleet_dir / "pages.jsonl.gz", "--from", truth["from"], "--to", truth["to"])
    decode, prefill = state["pools"]["decode"], state["pools"]["prefill"]
    assert decode["latency"]["ttft"]["count"] == prefill["latency"]["ttft"]["count"] == truth["requests"]
    assert decode["latency"]["tpot"]["mean"] == pytest.approx(truth["decode"]["tpot"]["mean"], rel=1e-6)
    assert decode["latency"]["ttft"]["mean"] == pytest.approx(truth["decode"]["ttft"]["mean"], rel=1e-6)
    assert state["system"]["ttft"]["mean"] == pytest.approx(truth["system"]["ttft_composed_mean"], rel=1e-3)
    assert decode["kv_transfer"]["transfers"] == truth["requests"]


def test_run_reads_its_file_again_when_it_is_asked_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text("pools: {decode: {role: decode, targets: [http://a]}}", encoding="utf-8")
    reads: list[Callable[[], Config] | None] = []

    def noting(_: Config, __: str | None, load: Callable[[], Config] | None = None) -> int:
        reads.append(load)
        return 0

    monkeypatch.setattr(runtime, "run", noting)
    assert main(["run", "-c", str(file), "--listen", ":7"]) == 0
    (load,) = reads
    assert load is not None
    file.write_text("pools: {decode: {role: decode, targets: [http://b]}}", encoding="utf-8")
    assert ([target.name for target in load().pools[0].targets], load().listen) == (["b:80"], ":7")
