"""Every page of a recorded fleet against the client library's own parser, and damaged in every way."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import random
from functools import cache, lru_cache
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from agent.errors import PageError
from agent.model import TARGET_WIDE, SeriesKey
from agent.reading.names import NAMES
from agent.reading.page import PageReader
from tests.reading.reads import Follower, edges, gauges

VLLM = "vllm:"
BY_FAMILY = {(VLLM if name.vllm else "") + name.aliases[0]: name for name in NAMES}


@cache
def recorded(shared: Path) -> dict[str, list[str]]:
    pages: dict[str, list[str]] = {}
    with gzip.open(shared / "recordings" / "real-fleet" / "pages.jsonl.gz", "rt") as lines:
        for line in lines:
            observation = json.loads(line)
            if "page" in observation:
                pages.setdefault(observation["target"], []).append(observation["page"])
    return pages


@lru_cache(maxsize=1024)
def parsed(family: str) -> list[Metric]:
    """The client library's reading of one family; most families of a page are those of the page before."""
    return list(text_string_to_metric_families("# TYPE " + family))


def expected(text: str) -> tuple[dict[SeriesKey, float], dict[SeriesKey, dict[float, float]], dict[SeriesKey, float]]:
    """What the client library's parser says: values, cumulative buckets, sums."""
    values: dict[SeriesKey, float] = {}
    buckets: dict[SeriesKey, dict[float, float]] = {}
    sums: dict[SeriesKey, float] = {}
    start, *rest = text.split("# TYPE ")
    assert start == ""
    for family in itertools.chain.from_iterable(map(parsed, rest)):
        for sample in family.samples:
            base = sample.name if family.type != "histogram" else sample.name.rsplit("_", 1)[0]
            name = BY_FAMILY.get(base)
            if name is None or name.kind == "info":
                continue
            labels = sample.labels
            key = SeriesKey(
                labels["engine"] if name.per_engine else TARGET_WIDE,
                name.metric,
                labels[name.own_label] if name.own_label else "",
                ",".join(f'{label}="{labels[label]}"' for label in name.raw_labels if label in labels),
            )
            if name.kind != "histogram":
                values[key] = sample.value
            elif sample.name.endswith("_bucket"):
                buckets.setdefault(key, {})[float(labels["le"])] = sample.value
            elif sample.name.endswith("_sum"):
                sums[key] = sample.value
    return values, buckets, sums


@pytest.mark.parametrize("target", ["prefill-0", "prefill-1", "decode-0"])
def test_every_sample_of_every_page_is_what_the_client_librarys_parser_reads(shared_dir: Path, target: str):
    reader, follower = PageReader(), Follower()
    for text in recorded(shared_dir)[target]:
        reading = reader.read(0.0, target, text)
        follower.take(reading)
        assert reading.problems == ()
        values, buckets, sums = expected(text)
        assert dict(follower.counters) | gauges(reading) == values
        assert follower.histograms.keys() == buckets.keys()
        for series, value in follower.histograms.items():
            bounds = (*edges(reading.layout, series), float("inf"))
            total = 0.0
            cumulative = {edge: (total := total + count) for edge, count in zip(bounds, value.counts, strict=True)}
            assert cumulative == buckets[series]
            assert value.total == sums[series]


def test_what_the_recorded_servers_are_is_recognised(shared_dir: Path):
    pages = recorded(shared_dir)
    decode = PageReader().read(0.0, "decode-0", pages["decode-0"][-1])
    prefill = PageReader().read(0.0, "prefill-0", pages["prefill-0"][-1])
    assert (decode.layout.engines, decode.layout.multiprocess) == (("0", "1"), True)
    assert (prefill.layout.engines, prefill.layout.multiprocess) == (("0",), False)
    assert prefill.layout.info["0"]["kv_cache_size_tokens"].isdecimal()


def damaged(text: str, chance: random.Random) -> str:
    """The page with one or a few random wounds."""
    for _ in range(chance.choice((1, 1, 3, 20))):
        at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        lines = text.split("\n")
        line = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                text = text[:to]
            case 1:
                text = (
                    text[:at]
                    + chr(chance.choice((0, 9, 32, 34, 35, 92, 95, 123, 125, 0xFFFD, 0x1F600)))
                    + text[at + 1 :]
                )
            case 2:
                lines[line:line] = lines[line : line + chance.randrange(30)]
                text = "\n".join(lines)
            case 3:
                text = text[:at] + text[min(to, at + 200) :]
            case 4:
                del lines[line]
                text = "\n".join(lines)
            case 5:
                lines[line] = lines[line].rsplit(" ", 1)[0] + chance.choice(
                    (" NaN", " -1", " 1e400", " x", "", " 1 2 3")
                )
                text = "\n".join(lines)
            case _:
                other = chance.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
        if not text:
            break
    return text


@pytest.mark.parametrize("target", ["prefill-0", "decode-0"])
def test_damaged_pages_end_in_a_reading_or_a_page_error_and_never_spoil_the_next(shared_dir: Path, target: str):
    chance = random.Random(20)
    pages = recorded(shared_dir)[target][-50:]
    reader, follower = PageReader(), Follower()
    read = 0
    for text, after in itertools.pairwise(pages):
        wounded = damaged(text, chance)
        with contextlib.suppress(PageError):
            fresh = Follower()
            fresh.take(PageReader().read(0.0, target, wounded))
            reading = reader.read(0.0, target, wounded)
            follower.take(reading)
            assert follower.counters.items() >= fresh.counters.items()
            assert follower.histograms.items() >= fresh.histograms.items()
            read += 1
        reading = reader.read(0.0, target, after)
        follower.take(reading)
        whole = Follower()
        whole.take(PageReader().read(0.0, target, after))
        assert reading.problems == ()
        assert (follower.counters, follower.histograms) == (whole.counters, whole.histograms)
    assert read > 15
