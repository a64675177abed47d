"""Pages of one target, one after another: only what changed is listed, and the layout is the same object."""

from __future__ import annotations

import pytest

from agent.errors import PageError
from agent.model import HistogramValue
from agent.reading.page import PageReader
from tests.reading.reads import bucket_lines, counters, gauges, histograms, key

COUNTS = {"0.5": 2.0, "1.0": 5.0, "+Inf": 7.0}


def page(generated: object = 5.0, prompted: object = 7.0, usage: object = 0.5, ttft: str = "") -> str:
    return (
        f'vllm:generation_tokens_total{{engine="0"}} {generated}\n'
        f'vllm:prompt_tokens_total{{engine="0"}} {prompted}\n'
        f'vllm:kv_cache_usage_perc{{engine="0"}} {usage}\n' + (ttft or bucket_lines(COUNTS))
    )


def test_the_first_page_lists_everything_and_is_fresh():
    reading = PageReader().read(0.0, "a", page())
    assert reading.fresh
    assert (len(reading.counters), len(reading.histograms)) == (2, 1)


def test_the_same_page_again_lists_nothing_new():
    reader = PageReader()
    first = reader.read(0.0, "a", page())
    again = reader.read(1.0, "a", page())
    assert not again.fresh
    assert (again.counters, again.histograms, again.gauges) == ({}, {}, [0.5])
    assert again.layout is first.layout


@pytest.mark.parametrize("value", ["6.0", "12345678.0", "1e+06", "0.0", "6.0 1760000000000"])
def test_a_value_that_moved_is_listed_alone_however_long_it_is(value):
    reader = PageReader()
    reader.read(0.0, "a", page())
    for expected in ({key("generation_tokens"): float(value.split()[0])}, {}):
        assert counters(reader.read(1.0, "a", page(generated=value))) == expected


def test_a_gauge_is_always_given():
    reader = PageReader()
    for usage, expected in (("0.5", 0.5), ("0.25", 0.25), ("NaN", None), ("NaN", None), ("1.0", 1.0)):
        assert gauges(reader.read(0.0, "a", page(usage=usage))) == {key("kv_usage"): expected}


def test_a_histogram_that_moved_is_listed_alone():
    reader = PageReader()
    reader.read(0.0, "a", page())
    moved = bucket_lines({"0.5": 2.0, "1.0": 6.0, "+Inf": 8.0}, total=9.25, count=8.0)
    reading = reader.read(1.0, "a", page(ttft=moved))
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 4.0, 2.0), 9.25)}
    assert reading.counters == {}
    assert reader.read(2.0, "a", page(ttft=moved)).histograms == {}


def test_a_new_series_makes_a_new_layout_and_lists_everything():
    reader = PageReader()
    first = reader.read(0.0, "a", page())
    reading = reader.read(1.0, "a", page() + 'vllm:generation_tokens_total{engine="1"} 3.0\n')
    assert reading.fresh
    assert reading.layout is not first.layout
    assert counters(reading)[key("generation_tokens", engine="1")] == 3.0
    assert len(reading.counters) == 3


def test_a_vanished_series_makes_a_new_layout():
    reader = PageReader()
    reader.read(0.0, "a", page())
    reading = reader.read(1.0, "a", page().split("\n", 1)[1])
    assert reading.fresh
    assert key("generation_tokens") not in counters(reading)


def test_lines_that_pdwatch_does_not_read_may_come_and_go_under_one_layout():
    reader = PageReader()
    first = reader.read(0.0, "a", page())
    lora = 'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a"} 1.7e+09\n'
    reading = reader.read(1.0, "a", page(generated=6.0) + lora)
    assert reading.layout is first.layout
    assert not reading.fresh
    assert counters(reading) == {key("generation_tokens"): 6.0}
    assert reading.samples == first.samples + 1


def test_changed_cache_configuration_is_a_new_layout():
    reader = PageReader()
    info = 'vllm:cache_config_info{engine="0",num_gpu_blocks="100"} 1.0\n'
    reader.read(0.0, "a", page() + info)
    reading = reader.read(1.0, "a", page() + info.replace("100", "200"))
    assert reading.fresh
    assert reading.layout.info["0"]["num_gpu_blocks"] == "200"


def test_a_page_that_was_cut_off_leaves_the_reader_where_it_was():
    reader = PageReader()
    reader.read(0.0, "a", page())
    with pytest.raises(PageError):
        reader.read(1.0, "a", page(generated=100.0)[:-3])
    reading = reader.read(2.0, "a", page(generated=9.0))
    assert not reading.fresh
    assert counters(reading) == {key("generation_tokens"): 9.0}


def test_a_line_replaced_by_a_bare_number_is_not_taken_for_its_value():
    reader = PageReader()
    reader.read(0.0, "a", page())
    reader.read(1.0, "a", page(generated=6.0))
    reading = reader.read(2.0, "a", page(generated=7.0).replace('vllm:generation_tokens_total{engine="0"} ', ""))
    assert key("generation_tokens") not in counters(reading)
    assert "line 1" in reading.problems[0].text


def test_two_readers_share_nothing_that_one_could_change():
    one, other = PageReader(), PageReader()
    one.read(0.0, "a", page())
    other.read(0.0, "b", page(generated=50.0))
    assert counters(one.read(1.0, "a", page(generated=6.0))) == {key("generation_tokens"): 6.0}
    assert counters(other.read(1.0, "b", page(generated=50.0))) == {}
