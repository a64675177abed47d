"""Wrong things inside a page: each is a named problem, the series is not listed, and the rest of the page is read."""

from __future__ import annotations

import re

import pytest

from agent.errors import PageTooLarge
from agent.model import HistogramValue
from agent.reading.page import PageReader
from tests.reading.reads import bucket_lines, counters, gauges, histograms, key, read, texts

GOOD = 'vllm:prompt_tokens_total{engine="0"} 7.0\n'
GOOD_READ = {key("prompt_tokens"): 7.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bucket_lines({"0.5": 6.0, "1.0": 5.0, "+Inf": 7.0}), "fall"),
        (bucket_lines({"0.5": 2.0, "1.0": 8.0, "+Inf": 7.0}), "fall"),
        (bucket_lines({"0.5": -1.0, "1.0": 5.0, "+Inf": 7.0}), "negative"),
        (bucket_lines({"0.5": "NaN", "1.0": 5.0, "+Inf": 7.0}), "not a number"),  # type: ignore[dict-item]
        (bucket_lines({"0.5": 2.0, "1.0": "NaN", "+Inf": 7.0}), "not a number"),  # type: ignore[dict-item]
        (bucket_lines({"0.5": 2.0, "1.0": 5.0, "+Inf": "+Inf"}), "not a number"),  # type: ignore[dict-item]
        (bucket_lines({"0.5": 2.0, "1.0": "x5", "+Inf": 7.0}), "not a number"),  # type: ignore[dict-item]
        (bucket_lines({"0.5": 2.0, "1.0": 5.0, "+Inf": 7.0}, count=8.0), "_count is 8 but the [+]Inf bucket is 7"),
        (bucket_lines({"0.5": 2.0, "1.0": 5.0, "+Inf": 7.0}, count="NaN"), "not a number"),
        (bucket_lines({"0.5": 2.0, "1.0": 8.0}), "fall"),
        (bucket_lines({"0.5": 2.0, "1.0": 5.0}, count=None), "neither a [+]Inf bucket nor a _count"),
        (bucket_lines({"0.5": 2.0, "0.50": 3.0, "+Inf": 7.0}), "more than once"),
    ],
)
def test_a_histogram_that_contradicts_itself_is_named_and_not_listed(text, said):
    reading = read(text + GOOD)
    assert reading.histograms == {}
    assert counters(reading) == GOOD_READ
    (problem,) = (problem for problem in reading.problems if not problem.harmless)
    assert (problem.code, problem.engine) == ("unusable_page", "0")
    assert "vllm:time_to_first_token_seconds of engine 0" in problem.text
    assert re.search(said, problem.text)


def test_a_missing_infinity_bucket_is_replaced_by_the_count():
    reading = read(bucket_lines({"0.5": 2.0, "1.0": 5.0}, count=7.0))
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 3.0, 2.0), 3.5)}
    (problem,) = reading.problems
    assert problem.text == "vllm:time_to_first_token_seconds of engine 0: no +Inf bucket; _count stands for it"
    assert problem.harmless


def test_a_missing_count_is_no_loss():
    reading = read(bucket_lines({"0.5": 2.0, "+Inf": 7.0}, count=None))
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 5.0), 3.5)}
    assert reading.problems == ()


@pytest.mark.parametrize(("total", "problems"), [(None, 0), ("NaN", 0), ("three", 1)])
def test_without_a_sum_a_histogram_still_has_its_counts(total, problems):
    reading = read(bucket_lines({"0.5": 2.0, "+Inf": 7.0}, total=total))
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 5.0), None)}
    assert len(reading.problems) == problems


def test_a_sum_may_be_negative():
    reading = read(bucket_lines({"0.5": 2.0, "+Inf": 7.0}, total=-1840.1, family="vllm:request_queue_time_seconds"))
    assert histograms(reading) == {key("queue"): HistogramValue((2.0, 5.0), -1840.1)}
    assert reading.problems == ()


def test_a_family_of_the_wrong_type_is_named_and_not_read():
    reading = read(bucket_lines({"0.5": 2.0, "+Inf": 7.0}, kind="gauge") + GOOD)
    assert reading.layout.histograms == ()
    assert "ttft" not in reading.layout.names
    assert texts(reading) == "vllm:time_to_first_token_seconds is declared a gauge, not a histogram: not read"
    assert counters(reading) == GOOD_READ


def test_an_alias_of_the_wrong_type_gives_way_to_the_next_one():
    usage = '# TYPE vllm:{0} {1}\nvllm:{0}{{engine="0"}} {2}\n'
    reading = read(
        usage.format("kv_cache_usage_perc", "counter", 0.9) + usage.format("gpu_cache_usage_perc", "gauge", 0.4)
    )
    assert gauges(reading) == {key("kv_usage"): 0.4}
    assert len(reading.problems) == 1


def test_the_same_series_twice_with_one_value_counts_once():
    reading = read(GOOD + GOOD + bucket_lines({"0.5": 2.0, "+Inf": 7.0}) + bucket_lines({"0.5": 2.0, "+Inf": 7.0}))
    assert counters(reading) == GOOD_READ
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 5.0), 3.5)}
    assert reading.problems == ()


def test_the_same_series_twice_with_two_values_is_not_used():
    other = 'vllm:generation_tokens_total{engine="0",model_name="a"} '
    again = 'vllm:generation_tokens_total{model_name="a",engine="0"} '
    reading = read(GOOD + other + "5.0\n" + again + "6.0\n")
    assert counters(reading) == GOOD_READ
    assert texts(reading) == "vllm:generation_tokens_total of engine 0: given more than once, with different values"


def test_a_series_given_twice_is_used_again_when_its_values_agree():
    reader = PageReader()
    twice = 'vllm:generation_tokens_total{{engine="0"}} {}\nvllm:generation_tokens_total{{engine="0"}} {}\n'
    assert counters(reader.read(0.0, "a", twice.format(5.0, 6.0))) == {}
    agreed = reader.read(1.0, "a", twice.format(7.0, 7.0))
    assert counters(agreed) == {key("generation_tokens"): 7.0}
    assert agreed.problems == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("-1.0", "negative"),
        ("NaN", "NaN"),
        ("+Inf", "infinite"),
        ("much", "not a number"),
        ("1 2 3", "not a number"),
        ("", "not a number"),
    ],
)
def test_an_impossible_counter_is_named_and_not_listed(value, said):
    reading = read(GOOD + f'vllm:generation_tokens_total{{engine="1"}} {value}\n')
    assert counters(reading) == GOOD_READ
    (problem,) = reading.problems
    assert said in problem.text
    assert "generation_tokens_total" in problem.text


def test_an_unreadable_value_is_a_problem_as_long_as_it_stands():
    reader = PageReader()
    page = 'vllm:generation_tokens_total{{engine="0"}} {}\n' + GOOD.replace("{", "{{").replace("}", "}}")
    seen = []
    for value in ("5.0", "6.0", "six", "six", "6.0", "7.0"):
        reading = reader.read(0.0, "a", page.format(value))
        seen.append((counters(reading).get(key("generation_tokens")), len(reading.problems)))
    assert seen == [(5.0, 0), (6.0, 0), (None, 1), (None, 1), (6.0, 0), (7.0, 0)]


def test_an_infinite_gauge_has_no_value_and_is_named():
    reading = read(GOOD + 'vllm:kv_cache_usage_perc{engine="0"} +Inf\n')
    assert gauges(reading) == {key("kv_usage"): None}
    assert "no finite number" in texts(reading)


def test_counts_past_2_to_the_53_are_listed_and_said_to_be_inexact():
    large = float(2**53 + 2)
    reading = read(
        f'vllm:generation_tokens_total{{engine="0"}} {large!r}\n'
        + bucket_lines({"0.5": large, "+Inf": large}, count=large)
    )
    assert counters(reading) == {key("generation_tokens"): large}
    assert histograms(reading) == {key("ttft"): HistogramValue((large, 0.0), 3.5)}
    assert [problem.text.count("2^53") for problem in reading.problems] == [1, 1]


@pytest.mark.parametrize(
    "line",
    [
        'vllm:generation_tokens_total{engine="0 5.0',
        "vllm:generation_tokens_total{engine=0} 5.0",
        'vllm:generation_tokens_total{engine="0",engine="1"} 5.0',
        'vllm:generation_tokens_total{="0"} 5.0',
        "vllm:generation_tokens_total",
        "5.0",
        "{}",
        'vllm:time_to_first_token_seconds_bucket{engine="0"} 5.0',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="wide"} 5.0',
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="NaN"} 5.0',
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_number_and_skipped(line):
    reading = read(GOOD + line + "\n")
    assert counters(reading) == GOOD_READ
    assert len(reading.problems) == 1
    assert reading.problems[0].text.startswith("line 2 ")
    assert reading.samples == 1


def test_a_page_full_of_problems_names_the_first_and_counts_the_rest():
    reading = read(GOOD + "broken\n" * 1000)
    assert len(reading.problems) == 21
    assert reading.problems[-1].text == "and 980 more problems on this page"


def test_an_evil_label_text_takes_no_time_to_refuse():
    line = 'vllm:generation_tokens_total{engine="' + '\\"' * 50_000
    assert len(read(GOOD + line + "\n").problems) == 1


@pytest.mark.parametrize("line", ['vllm:num_requests_running{engine="%s"} 1.0', "%s", 'vllm:foo{a="%s"} 1', "{%s"])
def test_a_line_of_megabytes_is_named_and_not_read(line):
    reading = read(GOOD + line % ("7" * 2_000_000) + "\n")
    assert counters(reading) == GOOD_READ
    assert reading.layout.engines == ("0",)
    (problem,) = reading.problems
    assert "line 2 is 20000" in problem.text
    assert "characters long and not read" in problem.text


def test_an_engine_whose_name_is_no_number_of_usual_size_stands_behind_the_others():
    long = "9" * 5000
    page = "".join(
        f'vllm:prompt_tokens_total{{engine="{name}"}} 7.0\n' for name in (long, "\N{SUPERSCRIPT TWO}", "10", "9")
    )
    assert read(page).layout.engines == ("9", "10", long, "\N{SUPERSCRIPT TWO}")


def test_a_page_of_too_many_lines_is_refused_before_it_is_taken_apart():
    with pytest.raises(PageTooLarge, match="400000 lines"):
        read(GOOD + "x 1\n" * 400_000)
