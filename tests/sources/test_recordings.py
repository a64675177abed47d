"""Recordings written, read, cut off and broken."""

import gzip
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import RecordingError
from agent.model import (
    CgroupSample,
    ClockStepObservation,
    FailureObservation,
    Observation,
    PageObservation,
    ProcessesObservation,
    ProcessSample,
    SourceProblem,
    Span,
    SpansObservation,
)
from agent.sources.recordings import SHIPPED_RECORDING, RecordingProblem, RecordingWriter, read_recording
from agent.sources.recordings import reader as reading

ONE_OF_EACH: tuple[Observation, ...] = (
    PageObservation(1000.0, "decode-0", '# TYPE a gauge\na{b="ü\\n"} 1\n', 0.012),
    PageObservation(1001.0, "decode-0", "# EOF\n", None, "application/openmetrics-text; version=1.0.0"),
    FailureObservation(1005.0, "decode-0", "timeout", "no complete page within 4 s"),
    ProcessesObservation(
        1005.0,
        "decode-0",
        (
            ProcessSample(
                pid=41,
                title="VLLM::EngineCore_DP0",
                started_seconds=900.25,
                parent_pid=7,
                kind="engine_core",
                engine="0",
                rss_bytes=5,
                anon_bytes=4,
                swap_bytes=0,
                file_bytes=1,
                shmem_bytes=0,
                hugetlb_bytes=2,
                threads=3,
                fds=9,
            ),
            ProcessSample(pid=7, title="vllm serve", kind="launcher"),
        ),
        CgroupSample(limit_bytes=10, anon_bytes=4, oom_kills=1, over_estimate=True),
        (SourceProblem("process_unreadable", "decode-0", "not allowed", 8),),
    ),
    SpansObservation(1009.0, "decode-0", (Span("ab", "cmpl-1", 1001.0, 1009.0, 900, 32, 1.2, 8.0, 0.9, 0.1, 6.8),)),
    ClockStepObservation(5000.0, 3991.0),
    PageObservation(5001.0, "decode-0", "a 2\n", 0.5),
)


def write_lines(path: Path, *lines: object) -> Path:
    """A file with one line for each value; text is written as it is."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    data = "".join(text + "\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def page(t: float, target: str = "decode-0", text: str = "a 1\n") -> dict[str, object]:
    return {"t": t, "target": target, "page": text}


def times(path: Path, *more: Path) -> list[float]:
    return [observation.t for observation in read_recording([path, *more])]


def read_all(path: Path) -> tuple[list[float], list[RecordingProblem]]:
    problems: list[RecordingProblem] = []
    return [observation.t for observation in read_recording([path], problems.append)], problems


# -- writing and reading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_written_is_what_is_read(tmp_path, name):
    with RecordingWriter(tmp_path / name) as writer:
        for observation in ONE_OF_EACH:
            assert writer.write(observation)
    assert tuple(read_recording([tmp_path / name])) == ONE_OF_EACH
    assert writer.bytes_written == (tmp_path / name).stat().st_size
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") is name.endswith(".gz")


def test_the_lines_have_the_public_form(tmp_path):
    with RecordingWriter(tmp_path / "a.jsonl") as writer:
        for observation in ONE_OF_EACH:
            writer.write(observation)
    written = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert written[0] == {"t": 1000.0, "target": "decode-0", "page": '# TYPE a gauge\na{b="ü\\n"} 1\n', "took_s": 0.012}
    assert {"t", "target", "error"} <= written[2].keys()
    process = written[3]["processes"][0]
    assert {"pid", "started", "parent", "title", "rss_bytes", "anon_bytes", "swap_bytes", "file_bytes", "shmem_bytes",
            "pss_bytes"} <= process.keys()  # fmt: skip
    assert (process["started"], process["parent"], process["pss_bytes"]) == (900.25, 7, None)
    assert {"limit_bytes", "anon_bytes", "file_bytes", "shmem_bytes"} <= written[3]["cgroup"].keys()
    assert written[4]["spans"][0] == {
        "trace": "ab", "request": "cmpl-1", "start": 1001.0, "end": 1009.0, "prompt_tokens": 900,
        "completion_tokens": 32, "ttft_s": 1.2, "e2e_s": 8.0, "queue_s": 0.9, "prefill_s": 0.1, "decode_s": 6.8,
    }  # fmt: skip


def test_help_lines_are_not_recorded_and_a_page_that_was_cut_off_does_not_look_whole(tmp_path):
    text = '# HELP a what a is\n# TYPE a gauge\na 1\n# HELP\tb x\nb{c="# HELP c"} 1\n# HELPER stays\n# HELP d end'
    with RecordingWriter(tmp_path / "a.jsonl") as writer:
        writer.write(PageObservation(1.0, "x", text))
    (observation,) = read_recording([tmp_path / "a.jsonl"])
    assert isinstance(observation, PageObservation)
    assert observation.page == '# TYPE a gauge\na 1\nb{c="# HELP c"} 1\n# HELPER stays'


def test_a_page_with_half_a_character_can_be_recorded(tmp_path):
    with RecordingWriter(tmp_path / "a.jsonl") as writer:
        writer.write(PageObservation(1.0, "x", "a\udc80\u2028\n"))
    (observation,) = read_recording([tmp_path / "a.jsonl"])
    assert isinstance(observation, PageObservation)
    assert observation.page == "a?\u2028\n"


def test_processes_of_a_recording_without_kinds_are_told_by_titles_and_parents(tmp_path):
    rows = [
        {"pid": 1, "parent": 0, "title": "vllm serve"},
        {"pid": 2, "parent": 1, "title": "VLLM::EngineCore_DP1"},
        {"pid": 3, "parent": 2, "title": "VLLM::Worker"},
    ]
    file = write_lines(tmp_path / "a.jsonl", {"t": 1, "target": "d", "processes": rows, "cgroup": None})
    (observation,) = read_recording([file])
    assert isinstance(observation, ProcessesObservation)
    assert [(process.kind, process.engine) for process in observation.processes] == [
        ("launcher", None),
        ("engine_core", "1"),
        ("worker", "1"),
    ]


def test_one_line_may_carry_several_kinds_and_unknown_keys(tmp_path):
    line = {**page(1.0), "error": "timeout", "cgroup": {"limit_bytes": 5, "new": 1}, "new": {}}
    kinds = [type(observation) for observation in read_recording([write_lines(tmp_path / "a.jsonl", line)])]
    assert kinds == [PageObservation, FailureObservation, ProcessesObservation]


# -- order ----------------------------------------------------------------------------------------------------------


def test_several_files_are_merged_by_time(tmp_path):
    first = write_lines(tmp_path / "a.jsonl.gz", page(1), page(4), page(9))
    second = write_lines(tmp_path / "b.jsonl", page(2), page(4.5))
    third = write_lines(tmp_path / "c.jsonl")
    assert times(first, second, third) == [1, 2, 4, 4.5, 9]


@settings(max_examples=40)
@given(st.lists(st.floats(min_value=0, max_value=59), min_size=1, max_size=40))
def test_lines_up_to_a_minute_out_of_order_are_put_in_order(tmp_path_factory, delays):
    # Each line lies where it was written, and its time is up to a minute earlier.
    moments = [1000 + 5 * i - delay for i, delay in enumerate(delays)]
    file = write_lines(tmp_path_factory.mktemp("order") / "a.jsonl", *map(page, moments))
    assert times(file) == sorted(moments)


def test_a_line_further_back_is_a_broken_one(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", page(1000), page(939), page(1001))
    with pytest.raises(RecordingError, match=r"a\.jsonl:2: lies 61 s behind a line before it"):
        times(file)
    seen, problems = read_all(file)
    assert seen == [1000, 1001]
    assert [problem.line for problem in problems] == [2]


def test_a_recorded_clock_step_allows_time_to_go_back(tmp_path):
    step = {"t": 400, "target": "", "clock_step_s": -600}
    file = write_lines(tmp_path / "a.jsonl", page(999), page(1000), step, page(401), page(400.5))
    assert times(file) == [999, 1000, 400, 400.5, 401]


# -- bad input ------------------------------------------------------------------------------------------------------

BROKEN_LINES = [
    ("{", "no JSON (Expecting property name"),
    ("nonsense", "no JSON"),
    ("[1]", "the line is no JSON object"),
    ('"t"', "the line is no JSON object"),
    ("{}", "'t' is missing"),
    ('{"t": null, "target": "d", "page": ""}', "'t' is missing"),
    ('{"t": "1", "target": "d", "page": ""}', "'t' is no finite number"),
    ('{"t": true, "target": "d", "page": ""}', "'t' is no finite number"),
    ('{"t": NaN, "target": "d", "page": ""}', "'t' is no finite number"),
    ('{"t": Infinity, "target": "d", "page": ""}', "'t' is no finite number"),
    ('{"t": 1, "page": ""}', "'target' is missing"),
    ('{"t": 1, "target": "", "page": ""}', "'target' is empty"),
    ('{"t": 1, "target": 5, "page": ""}', "'target' is no text"),
    ('{"t": 1, "target": "d"}', "holds none of page, error,"),
    ('{"t": 1, "target": "d", "page": 5}', "'page' is no text"),
    ('{"t": 1, "target": "d", "page": null}', "'page' is missing"),
    ('{"t": 1, "target": "d", "page": "", "took_s": "x"}', "'took_s' is no finite number"),
    ('{"t": 1, "target": "d", "processes": {}}', "'processes' is no list"),
    ('{"t": 1, "target": "d", "processes": [5]}', "a process is no JSON object"),
    ('{"t": 1, "target": "d", "processes": [{"title": "x"}]}', "'pid' is missing"),
    ('{"t": 1, "target": "d", "processes": [{"pid": 1.5, "title": "x"}]}', "'pid' is no whole number"),
    ('{"t": 1, "target": "d", "processes": [{"pid": 1}]}', "'title' is missing"),
    ('{"t": 1, "target": "d", "processes": [{"pid": 1, "title": "x", "fds": "5"}]}', "'fds' is no finite number"),
    ('{"t": 1, "target": "d", "cgroup": 5}', "'cgroup' is no JSON object"),
    ('{"t": 1, "target": "d", "spans": [{"trace": "x"}]}', "'request' is missing"),
    ('{"t": 1, "target": "", "clock_step_s": "x"}', "'clock_step_s' is no finite number"),
    ("[" * 100_000, "recursion"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), BROKEN_LINES, ids=[reason for _, reason in BROKEN_LINES])
def test_a_broken_line_is_named_by_file_and_number(tmp_path, line, reason):
    file = write_lines(tmp_path / "a.jsonl", page(1), "", line, page(2))
    with pytest.raises(RecordingError) as raised:
        times(file)
    assert str(raised.value).startswith(f"{file}:3: broken line: ")
    assert reason in str(raised.value)
    seen, problems = read_all(file)
    assert seen == [1, 2]
    assert [(problem.kind, problem.line) for problem in problems] == [("broken", 3)]


def test_processes_that_are_their_own_parents_do_not_hang_the_reader(tmp_path):
    rows = [
        {"pid": 1, "parent": 2, "title": "a"},
        {"pid": 2, "parent": 1, "title": "b"},
        {"pid": 3, "parent": 3, "title": "c"},
    ]
    file = write_lines(tmp_path / "a.jsonl", {"t": 1, "target": "d", "processes": rows})
    assert times(file) == [1]


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"t":1,"target":"\xff"}\n' + json.dumps(page(2)).encode() + b"\n")
    seen, problems = read_all(file)
    assert seen == [2]
    assert problems == [RecordingProblem("broken", str(file), 1, "broken line: not UTF-8")]


def test_a_last_line_without_its_line_feed_is_read_if_it_is_whole(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(page(1)) + "\n" + json.dumps(page(2)), encoding="utf-8")
    assert times(file) == [1, 2]


def test_a_cut_off_last_line_is_reported_after_everything_before_it(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(page(1)) + "\n" + json.dumps(page(2))[:-9], encoding="utf-8")
    other = write_lines(tmp_path / "b.jsonl", page(1.5), page(3))
    seen: list[float] = []
    with pytest.raises(RecordingError, match=r"a\.jsonl:2: the last line is cut off"):
        seen.extend(observation.t for observation in read_recording([file, other]))
    assert seen == [1, 1.5, 3]
    assert [problem.kind for problem in read_all(file)[1]] == ["cut_off"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_compressed_file_cut_anywhere_gives_what_came_before(tmp_path, share):
    file = tmp_path / "a.jsonl.gz"
    with RecordingWriter(file) as writer:
        for i in range(200):
            writer.write(PageObservation(float(i), "decode-0", f"a {zlib.crc32(bytes([i]))}\n" * 20))
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    seen, problems = read_all(file)
    assert seen == [float(i) for i in range(len(seen))]
    assert 200 * share - 15 < len(seen) < 200
    assert [problem.kind for problem in problems] == ["cut_off"]


def test_damaged_compression_gives_what_came_before_and_says_so(tmp_path):
    file = tmp_path / "a.jsonl.gz"
    with RecordingWriter(file) as writer:
        for i in range(1000):
            writer.write(PageObservation(float(i), "decode-0", f"a {zlib.crc32(bytes([i % 256]))}\n" * 20))
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20] = b"\xff" * 20
    file.write_bytes(data)
    seen, problems = read_all(file)
    assert 300 < len(seen) < 1000
    assert seen == [float(i) for i in range(len(seen))]
    assert problems[-1].kind == "broken"
    assert "damaged from here on" in problems[-1].text


@pytest.mark.parametrize("between", [b"", b"\0" * 100])
def test_compressed_files_put_one_behind_the_other_are_read_as_one(tmp_path, between):
    parts = [write_lines(tmp_path / f"{i}.jsonl.gz", page(i)).read_bytes() for i in range(3)]
    file = tmp_path / "all.jsonl.gz"
    file.write_bytes(between.join(parts) + between)
    assert read_all(file) == ([0, 1, 2], [])


def test_compression_is_told_by_the_content_and_not_by_the_name(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(write_lines(tmp_path / "b.jsonl.gz", page(1)).read_bytes())
    assert times(file) == [1]


def test_a_line_without_end_is_given_up_at_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 100_000)
    file = write_lines(tmp_path / "a.jsonl.gz", page(1), "x" * 5_000_000, page(2))
    seen, problems = read_all(file)
    assert seen == [1, 2]
    assert [(problem.kind, problem.line) for problem in problems] == [("broken", 2)]


def test_a_file_that_is_not_there_and_no_file_at_all_are_errors(tmp_path):
    with pytest.raises(RecordingError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        times(tmp_path / "nowhere.jsonl")
    with pytest.raises(RecordingError, match="no recording given"):
        list(read_recording([]))


# -- the writer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_recorder_that_is_killed_loses_a_few_seconds_at_most(tmp_path, name):
    writer = RecordingWriter(tmp_path / name)
    for i in range(100):
        writer.write(PageObservation(float(i), "decode-0", "a 1\n"))
    left_behind = (tmp_path / name).read_bytes()  # as a kill would leave it: nothing closed
    writer.close()
    (tmp_path / f"killed-{name}").write_bytes(left_behind)
    seen, problems = read_all(tmp_path / f"killed-{name}")
    assert seen[-1] >= 95.0
    assert {problem.kind for problem in problems} <= {"cut_off"}


def test_an_existing_recording_is_not_overwritten(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", page(1))
    with pytest.raises(RecordingError, match="exists already"):
        RecordingWriter(file)
    assert times(file) == [1]


def test_a_recording_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(RecordingError, match="cannot be written: No such file"):
        RecordingWriter(tmp_path / "nowhere" / "a.jsonl")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_recording_stops_at_its_bound_and_stays_readable(tmp_path, name):
    with RecordingWriter(tmp_path / name, max_bytes=20_000) as writer:
        written = [
            writer.write(PageObservation(10.0 * i, "d", f"a {zlib.crc32(bytes([i % 256]))}\n" * 9)) for i in range(1000)
        ]
    count = written.index(False)
    assert not any(written[count:])
    assert writer.is_full
    assert (tmp_path / name).stat().st_size < 21_000
    assert len(times(tmp_path / name)) == count


# -- the shipped recording ------------------------------------------------------------------------------------------


def test_the_shipped_recording_reads_without_a_problem_and_begins_with_fresh_servers():
    file = SHIPPED_RECORDING
    problems: list[RecordingProblem] = []
    observations = list(read_recording([file], problems.append))
    assert problems == []
    assert file.stat().st_size < 1_500_000
    assert {
        observation.target for observation in observations if not isinstance(observation, ClockStepObservation)
    } == {
        "prefill-0",
        "prefill-1",
        "decode-0",
    }
    first = {o.target: o.page for o in reversed(observations) if isinstance(o, PageObservation)}
    for text in first.values():
        assert "# HELP" not in text
        counted = [line for line in text.splitlines() if line.startswith("vllm:request_success_total")]
        assert counted
        assert all(line.endswith(" 0.0") for line in counted)


def test_the_real_recording_is_read_whole(shared_dir: Path):
    folder = shared_dir / "recordings/real-fleet"
    kinds: dict[str, int] = {}
    last = 0.0
    for observation in read_recording([folder / "pages.jsonl.gz", folder / "spans.jsonl.gz"]):
        kinds[type(observation).__name__] = kinds.get(type(observation).__name__, 0) + 1
        assert observation.t >= last
        last = observation.t
    assert kinds == {
        "PageObservation": 650, "FailureObservation": 64, "ProcessesObservation": 708, "SpansObservation": 352,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"", " nothing was recorded"),
        ("a.jsonl.gz", b"", " nothing was recorded"),
        ("a.jsonl.gz", b"hello\n", "1: neither gzip, as its name says, nor JSON lines"),
        ("a.jsonl", b"hello\nworld\n", "1: broken line: no JSON"),
        ("a.jsonl.gz", b'{"x": 1}\n', "1: broken line"),
    ],
)
def test_a_file_that_is_no_recording_is_named_even_where_broken_lines_are_passed_over(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=rf"{name}:{said}.*; there is not one observation"):
        list(read_recording([path], lambda _: None))
