"""What holds for every page: random families read back as the client library's parser reads them, in any sequence."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.model import PageProblem, SeriesKey
from agent.reading.names import NAMES
from agent.reading.page import PageReader
from tests.reading.reads import Follower, gauges, histograms, key, read

VALUES = st.one_of(st.integers(0, 10**9).map(float), st.floats(0, 1e12), st.just(math.nan))
MODELS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cs", "Zl", "Zp", "Cc")), max_size=12
)
COUNTERS = [name for name in NAMES if not name.optional and name.kind == "counter" and name.per_engine]
GAUGES = [name for name in NAMES if name.kind == "gauge" and name.per_engine]


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def text_of(value: float) -> str:
    return "NaN" if value != value else repr(value)


@given(
    model=MODELS,
    counts=st.lists(st.tuples(st.sampled_from(COUNTERS), st.integers(0, 3), st.floats(0, 1e12)), max_size=20),
    levels=st.lists(st.tuples(st.sampled_from(GAUGES), st.integers(0, 3), VALUES), max_size=20),
)
def test_random_families_read_back_as_the_client_librarys_parser_reads_them(model, counts, levels):
    lines = {}
    for name, engine, value in (*counts, *levels):
        labels = {"model_name": model, "engine": str(engine)} | ({name.own_label: "x"} if name.own_label else {})
        braces = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
        lines[name.key, engine] = f"vllm:{name.aliases[0]}{{{braces}}} {text_of(value)}\n"
    page = "# TYPE vllm:unread gauge\n" + "".join(lines.values())
    reading = read(page)
    by_family = {f"vllm:{name.aliases[0]}": name for name in (*COUNTERS, *GAUGES)}
    expected = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = by_family[sample.name]
            series = SeriesKey(sample.labels["engine"], name.metric, sample.labels.get(name.own_label, ""))
            expected[series] = None if sample.value != sample.value else sample.value
    counters = {reading.layout.counters[index]: value for index, value in reading.counters.items()}
    assert counters | gauges(reading) == expected
    assert reading.problems == ()


@given(
    bounds=st.lists(st.floats(0, 1e9, exclude_min=True), max_size=12, unique=True),
    increments=st.lists(st.integers(0, 1000), min_size=13, max_size=13),
    total=st.floats(-1e12, 1e12),
    order=st.randoms(use_true_random=False),
)
def test_a_histogram_reads_back_whatever_the_order_of_its_lines(bounds, increments, total, order):
    bounds = sorted(bounds)
    count = 0
    lines = []
    for bound, increment in zip([*bounds, math.inf], increments, strict=False):
        count += increment
        le = "+Inf" if bound == math.inf else repr(bound)
        lines.append(f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{le}"}} {count}')
    lines.append(f'vllm:time_to_first_token_seconds_sum{{engine="0"}} {total!r}')
    lines.append(f'vllm:time_to_first_token_seconds_count{{engine="0"}} {count}')
    order.shuffle(lines)
    reading = read("\n".join(lines) + "\n")
    assert reading.problems == ()
    assert reading.layout.histograms[0].edges == tuple(bounds)
    assert histograms(reading) == {key("ttft"): (tuple(map(float, increments[: len(bounds) + 1])), total)}


LINES = st.sampled_from(
    [
        'vllm:generation_tokens_total{engine="0"} ',
        'vllm:generation_tokens_total{engine="1"} ',
        'vllm:prompt_tokens_total{engine="0"} ',
        'vllm:kv_cache_usage_perc{engine="0"} ',
        'vllm:mm_cache_hits_total{engine="0"} ',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} ',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="2.5"} ',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} ',
        'vllm:time_to_first_token_seconds_count{engine="0"} ',
        'vllm:time_to_first_token_seconds_sum{engine="0"} ',
        'vllm:lora_requests_info{running_lora_adapters="a"} ',
        "# TYPE vllm:generation_tokens_total counter ",
        "nonsense",
    ]
)
TEXTS = st.sampled_from(
    ["0.0", "1.0", "2.0", "3.0", "1e+06", "NaN", "-1.0", "+Inf", "x", "2.0 1700000000000", "2.0 # {} 1"]
)
PAGES = st.lists(st.tuples(LINES, TEXTS), min_size=1, max_size=24)


@st.composite
def sequences(draw: st.DrawFn) -> list[str]:
    """Pages that mostly differ from the one before in a few values, now and then in their lines."""
    page = draw(PAGES)
    pages = []
    for _ in range(draw(st.integers(2, 6))):
        pages.append("# TYPE vllm:unread gauge\n" + "".join(f"{line}{text}\n" for line, text in page))
        page = [(line, draw(TEXTS) if draw(st.booleans()) else text) for line, text in page]
        if draw(st.integers(0, 4)) == 0:
            page = draw(st.permutations(page)) if draw(st.booleans()) else page + draw(PAGES)
    return pages


def by_text(problems: tuple[PageProblem, ...]) -> list[str]:
    return sorted(problem.text for problem in problems)


@settings(max_examples=300)
@given(sequences())
def test_reading_a_sequence_of_pages_equals_reading_each_of_them_anew(pages):
    reader, follower = PageReader(), Follower()
    for page in pages:
        reading = reader.read(0.0, "a", page)
        follower.take(reading)
        alone = Follower()
        anew = PageReader().read(0.0, "a", page)
        alone.take(anew)
        assert follower.counters.items() >= alone.counters.items()
        assert follower.histograms.items() >= alone.histograms.items()
        assert reading.gauges == anew.gauges
        assert reading.samples == anew.samples
        assert by_text(reading.problems) == by_text(anew.problems)
        assert reading.layout.counters == anew.layout.counters
        assert reading.layout.histograms == anew.layout.histograms
