"""Pages of the simulated servers have the form of vLLM's own, in both modes."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.demo import Fleet, small, start_incident, story
from agent.demo.pages import number
from agent.reading.names import missing
from agent.reading.page import PageReader
from tests.demo.watched import START

REAL = Path("recordings") / "real-fleet" / "pages.jsonl.gz"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    running = Fleet(story(), START)
    running.advance(START + 600)
    return running


def page_of(fleet: Fleet, target: str) -> str:
    page = fleet.page(target)
    assert page is not None
    return page


@pytest.mark.parametrize("target", ["prefill-0", "decode-0"])
def test_a_page_parses_and_its_histograms_are_consistent(fleet: Fleet, target: str):
    families = list(text_string_to_metric_families(page_of(fleet, target)))
    assert len({family.name for family in families}) == len(families)
    histograms = [family for family in families if family.type == "histogram"]
    assert len(histograms) == 22
    for family in histograms:
        buckets: dict[str, list[float]] = {}
        counts: dict[str, float] = {}
        for sample in family.samples:
            engine = sample.labels.get("engine", "")
            if sample.name.endswith("_bucket"):
                buckets.setdefault(engine, []).append(sample.value)
            elif sample.name.endswith("_count"):
                counts[engine] = sample.value
        assert counts == {engine: values[-1] for engine, values in buckets.items()}
        assert all(values == sorted(values) for values in buckets.values())


def test_every_family_declares_itself_once_with_help(fleet: Fleet):
    for target in ("prefill-0", "decode-0"):
        lines = page_of(fleet, target).splitlines()
        types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        helps = [line.split()[2] for line in lines if line.startswith("# HELP")]
        assert types == helps
        assert len(set(types)) == len(types)


def test_the_reader_finds_every_metric_and_no_problem(fleet: Fleet):
    prefill = PageReader().read(START, "prefill-0", page_of(fleet, "prefill-0"))
    decode = PageReader().read(START, "decode-0", page_of(fleet, "decode-0"))
    assert (prefill.layout.engines, prefill.layout.multiprocess) == (("0", "1", "2", "3"), False)
    assert (decode.layout.engines, decode.layout.multiprocess) == (tuple("01234567"), True)
    assert not prefill.problems
    assert not decode.problems
    # counted only when a server is told to
    assert {name.key for name in missing(prefill.layout.names)} == {"kv_fetch", "corrupted_requests"}
    assert {name.key for name in missing(decode.layout.names)} == {
        "process_start_time_seconds",
        "process_resident_memory_bytes",
        "corrupted_requests",
    }
    assert decode.layout.info["7"]["kv_cache_size_tokens"] == "2400000"
    assert decode.layout.info["7"]["num_gpu_blocks"] == str(8 * 2_400_000 // 64)


def test_a_prefill_page_has_forced_zeros_and_no_steps(fleet: Fleet):
    page = page_of(fleet, "prefill-0")
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    own = '{engine="0",model_name="zai-org/GLM-5.2"}'
    legs = float(values[f"vllm:e2e_request_latency_seconds_count{own}"])
    assert legs > 0
    assert float(values[f"vllm:request_time_per_output_token_seconds_count{own}"]) == legs
    assert float(values[f"vllm:request_time_per_output_token_seconds_sum{own}"]) == 0.0
    assert float(values[f"vllm:inter_token_latency_seconds_count{own}"]) == 0.0
    assert float(values[f"vllm:spec_decode_num_drafts_total{own}"]) == 0.0
    assert float(values[f"vllm:generation_tokens_total{own}"]) == legs


def test_a_multiprocess_page_has_no_gauge_before_the_first_step():
    fleet = Fleet(small(), START)
    fleet.arrivals.rate_factor = 0.0
    fleet.expect_arrivals(START)
    page = page_of(fleet, "decode-0")
    assert "# TYPE vllm:num_requests_running gauge\n# HELP" in page
    assert 'vllm:engine_sleep_state{engine="0"' in page
    assert "http_requests_total" not in page
    assert 'vllm:num_requests_running{engine="0"' in page_of(fleet, "prefill-0")
    fleet.submit(START, 20_000, 0, 50, "stop")
    fleet.advance(START + 30)
    page = page_of(fleet, "decode-0")
    assert 'vllm:num_requests_running{engine="0"' in page
    assert 'vllm:num_requests_running{engine="1"' not in page
    assert 'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 1.0' in page


def test_a_long_prompt_is_one_jump_of_the_counters():
    fleet = Fleet(small(), START)
    fleet.arrivals.rate_factor = 0.0
    fleet.expect_arrivals(START)
    fleet.submit(START, 250_000, 0, 50, "stop")
    seen = []
    for second in range(1, 20):
        fleet.advance(START + second)
        seen += re.findall(r'vllm:prompt_tokens_total{engine="\d",m.*} (\S+)', page_of(fleet, "prefill-0"))
    assert set(seen) == {"0.0", "250000.0"}


def test_a_restart_begins_at_zero_with_a_new_start_time():
    fleet = Fleet(small(), START)
    start_incident(fleet, "rollout", at=START + 600, targets=["prefill-0"])
    fleet.advance(START + 599)
    before = page_of(fleet, "prefill-0")
    fleet.advance(START + 700)
    assert fleet.page("prefill-0") is None
    fleet.advance(START + 600 + 60 + 150)
    after = page_of(fleet, "prefill-0")
    started = r"process_start_time_seconds (\S+)"
    assert float(re.findall(started, before)[-1]) == START
    assert float(re.findall(started, after)[-1]) == START + 810
    assert not re.search(r"vllm:prompt_tokens_total{.*} [1-9]", after)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (5, "5.0"),
        (123456, "123456.0"),
        (999999.5, "999999.5"),
        (1e6, "1e+06"),
        (96534528, "9.6534528e+07"),
        (8589934592.0, "8.589934592e+09"),
        (-1840.1, "-1840.1"),
        (0.25, "0.25"),
    ],
)
def test_numbers_are_written_as_the_client_library_writes_them(value: float, text: str):
    assert number(value) == text


def real_pages(shared: Path) -> Iterator[tuple[str, str]]:
    # gzip is read without a file object so that an unfinished last member is no error
    for line in reversed(zlib.decompressobj(31).decompress((shared / REAL).read_bytes()).decode().splitlines()):
        entry = json.loads(line)
        if "page" in entry:
            yield entry["target"], entry["page"]


def shape(page: str, engines: int) -> list[str]:
    """Names and labels in page order, without what differs between any two deployments."""
    found = []
    for line in page.splitlines():
        engine = re.search(r'engine="(\d+)"', line)
        if line.startswith("# HELP") or (engine and int(engine[1]) >= engines):
            continue
        key = line if line.startswith("#") else line.rsplit(" ", 1)[0]
        key = re.sub(r'model_name="[^"]*"', "", key.replace("/v1/chat/completions", "/v1/completions"))
        if "_tokens_bucket" not in key:
            found.append(re.sub(r'="[^"]*"', "", key) if "_info" in key else key)
    return found


@pytest.mark.parametrize(("target", "engines"), [("prefill-0", 1), ("decode-0", 2)])
def test_a_page_has_the_series_of_a_real_page_in_its_order(fleet: Fleet, shared_dir: Path, target: str, engines: int):
    real = next(page for name, page in real_pages(shared_dir) if name == target)
    assert shape(page_of(fleet, target), engines) == shape(real, engines)
