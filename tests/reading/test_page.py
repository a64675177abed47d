"""What real pages look like: several engines, several processes, old versions, routers, other exporters in between."""

from __future__ import annotations

import pytest

from agent.errors import NotVllm, PageError, PageTooLarge
from agent.model import TARGET_WIDE, HistogramValue
from agent.reading.page import PageReader
from tests.reading.reads import bucket_lines, counters, edges, gauges, histograms, key, read

COUNTER = "# TYPE vllm:generation_tokens_total counter\n"


def tokens(value: object, engine: str = "0", model: str = "demo") -> str:
    return f'vllm:generation_tokens_total{{engine="{engine}",model_name="{model}"}} {value}\n'


def test_every_engine_of_a_page_has_its_own_series():
    reading = read(COUNTER + tokens(5.0, "0") + tokens(7.0, "10") + tokens(6.0, "2"))
    assert reading.layout.engines == ("0", "2", "10")
    assert counters(reading) == {
        key("generation_tokens", engine="0"): 5.0,
        key("generation_tokens", engine="10"): 7.0,
        key("generation_tokens", engine="2"): 6.0,
    }


def test_a_page_from_before_the_engine_label_has_one_engine_called_0():
    reading = read(COUNTER + 'vllm:generation_tokens_total{model_name="demo"} 9.6534528e+07\n')
    assert counters(reading) == {key("generation_tokens"): 96534528.0}
    assert reading.layout.engines == ("0",)


def test_series_without_an_engine_by_nature_belong_to_the_target():
    reading = read(
        COUNTER
        + tokens(1.0)
        + 'vllm:admission_rejections_total{model_name="demo",reason="max_num_queued_reqs"} 3.0\n'
        + 'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 8.0\n'
        + 'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 9.0\n'
        + "process_start_time_seconds 1.7959712686e+09\n"
    )
    found = counters(reading)
    assert found[key("admission_rejections", "max_num_queued_reqs", TARGET_WIDE)] == 3.0
    completions = key("http_requests", "2xx", TARGET_WIDE, 'handler="/v1/completions",method="POST"')
    chat = key("http_requests", "2xx", TARGET_WIDE, 'handler="/v1/chat/completions",method="POST"')
    assert (found[completions], found[chat]) == (8.0, 9.0)
    assert gauges(reading) == {key("process_start_time_seconds", engine=TARGET_WIDE): 1795971268.6}
    assert reading.layout.engines == ("0",)


def test_a_multi_process_page_gives_the_sum_first_and_is_recognised():
    text = (
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        'vllm:time_to_first_token_seconds_sum{engine="0",model_name="demo"} 4.0\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="demo"} 2.0\n'
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="demo"} 3.0\n'
        'vllm:time_to_first_token_seconds_count{engine="0",model_name="demo"} 3.0\n'
        "# TYPE vllm:num_requests_running gauge\n"
    )
    reading = read(text)
    assert histograms(reading) == {key("ttft"): HistogramValue((2.0, 1.0), 4.0)}
    assert reading.layout.multiprocess
    assert not read(bucket_lines({"1.0": 2.0, "+Inf": 7.0})).layout.multiprocess


def test_a_gauge_that_is_declared_and_has_no_sample_yet_is_known_but_has_no_value():
    reading = read(COUNTER + tokens(1.0) + "# TYPE vllm:num_requests_running gauge\n")
    assert reading.gauges == []
    assert reading.layout.names["running"] == "vllm:num_requests_running"


def test_iteration_tokens_total_is_a_histogram_despite_its_ending():
    reading = read(bucket_lines({"8.0": 7.0, "+Inf": 7.0}, family="vllm:iteration_tokens_total"))
    assert histograms(reading) == {key("iteration_tokens"): HistogramValue((7.0, 0.0), 3.5)}


def test_edges_are_compared_as_numbers_and_sorted():
    reading = read(bucket_lines({"1e+06": 6.0, "200000.0": 5.0, "+Inf": 7.0, "5": 1.0}))
    assert edges(reading.layout, key("ttft")) == (5.0, 200000.0, 1e6)
    assert histograms(reading) == {key("ttft"): HistogramValue((1.0, 4.0, 1.0, 1.0), 3.5)}


def test_equal_edges_are_one_object_for_all_engines():
    one, two = 'engine="0",model_name="demo"', 'engine="1",model_name="demo"'
    counts = {"1.0": 2.0, "+Inf": 7.0}
    layout = read(bucket_lines(counts, labels=one) + bucket_lines(counts, labels=two)).layout
    assert layout.histograms[0].edges is layout.histograms[1].edges


def test_a_dynamo_worker_page_with_other_label_order_and_more_labels_is_read():
    labels = 'dynamo_component="decode",model_name="demo",engine="3",dynamo_namespace="prod"'
    reading = read(bucket_lines({"1": 2.0, "+Inf": 7.0}, labels=labels))
    assert histograms(reading) == {key("ttft", engine="3"): HistogramValue((2.0, 5.0), 3.5)}
    assert edges(reading.layout, key("ttft", engine="3")) == (1.0,)


def test_series_that_mean_the_same_are_told_apart_by_their_other_labels():
    reading = read(COUNTER + tokens(1.0, model="a") + tokens(2.0, model="b"))
    assert counters(reading) == {
        key("generation_tokens", raw='model_name="a"'): 1.0,
        key("generation_tokens", raw='model_name="b"'): 2.0,
    }


def test_cache_configuration_is_kept_as_text_by_engine():
    reading = read(
        "# TYPE vllm:cache_config_info gauge\n"
        'vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="87376"} 1.0\n'
        'vllm:cache_config_info{block_size="16",engine="1",kv_cache_size_tokens="87392"} 1.0\n'
    )
    assert reading.layout.info["1"]["kv_cache_size_tokens"] == "87392"
    assert reading.layout.engines == ("0", "1")


def test_exemplars_and_odd_blanks_are_passed_over():
    text = (
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        'vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0"} 3 # {trace_id="a} b"} 0.5 1520879607.7\n'
        'vllm:time_to_first_token_seconds_bucket {engine="0" , le="+Inf",} 4 # {trace_id="b"} 0.5\n'
        'vllm:time_to_first_token_seconds_sum\t{engine="0"}\t5.5\n'
        'vllm:time_to_first_token_seconds_count{engine="0"}   4  1760000000000\n'
        "# EOF\n"
    )
    reading = read(text)
    assert reading.problems == ()
    assert histograms(reading) == {key("ttft"): HistogramValue((3.0, 1.0), 5.5)}


def test_escapes_in_labels_are_resolved():
    reading = read('vllm:request_success_total{engine="0",finished_reason="a\\\\b\\"c\\nd"} 1.0\n')
    assert counters(reading) == {key("requests_finished", 'a\\b"c\nd'): 1.0}


@pytest.mark.parametrize("spelling", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:"])
def test_every_spelling_of_the_prefix_is_read(spelling):
    reading = read(f'{spelling}generation_tokens_total{{engine="0"}} 5.0\n')
    assert counters(reading) == {key("generation_tokens"): 5.0}
    assert reading.layout.names == {"generation_tokens": f"{spelling}generation_tokens_total"}


def test_two_spellings_of_one_metric_are_never_added():
    reading = read('vllm_generation_tokens_total{engine="0"} 5.0\nvllm:generation_tokens_total{engine="0"} 5.0\n')
    assert counters(reading) == {key("generation_tokens"): 5.0}
    assert reading.layout.names == {"generation_tokens": "vllm:generation_tokens_total"}


@pytest.mark.parametrize("name", ["acme_vllm:generation_tokens_total", "acme_generation_tokens_total"])
def test_a_configured_prefix_stands_before_or_in_place_of_vllm(name):
    reading = read(f'{name}{{engine="0"}} 5.0\n', prefix="acme_")
    assert counters(reading) == {key("generation_tokens"): 5.0}


def test_ray_may_leave_out_the_ending_of_a_counter_and_call_it_a_gauge():
    reading = read('# TYPE ray_vllm_prompt_tokens gauge\nray_vllm_prompt_tokens{engine="0",ReplicaId="x"} 5.0\n')
    assert counters(reading) == {key("prompt_tokens"): 5.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("<!DOCTYPE html><html><body>login vllm</body></html>", "HTML"),
        ("<html>vllm:</html>", "HTML"),
        ("\x1f\x8b\x00\x00binary", "binary"),
        ("# TYPE node_load1 gauge\nnode_load1 0.5\n", "no metric of vLLM"),
        ("python_info 1.0\nhttp_requests_total 4.0\n", "--disable-log-stats"),
        ("dynamo_frontend_requests_total 4.0\n", "Dynamo"),
        ("vllm_router_requests_total 4.0\n", "vllm-router"),
    ],
)
def test_a_page_that_is_not_vllms_says_what_it_seems_to_be(text, said):
    with pytest.raises(NotVllm, match=said):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server="http://10.0.0.1:8000"} 3.0\n',
        "# TYPE vllm:current_qps gauge\n# TYPE vllm:num_requests_running gauge\n",
    ],
)
def test_a_routers_page_with_vllms_names_is_not_an_engines(text):
    with pytest.raises(NotVllm, match="router"):
        read(text)


@pytest.mark.parametrize("cut", [1, 2, 9, 30])
def test_a_page_whose_last_line_has_no_end_was_cut_off(cut):
    text = COUNTER + tokens(1234.0)
    with pytest.raises(PageError, match="cut off"):
        read(text[:-cut])


def test_an_openmetrics_page_without_its_end_was_cut_off():
    with pytest.raises(PageError, match="# EOF"):
        read(COUNTER + tokens(1.0), "application/openmetrics-text; version=1.0.0")


def test_more_engines_than_allowed_are_too_large_a_page():
    text = COUNTER + "".join(tokens(1.0, str(engine)) for engine in range(5))
    assert len(PageReader(max_engines=5).read(0.0, "a", text).layout.engines) == 5
    with pytest.raises(PageTooLarge, match="4 engines"):
        PageReader(max_engines=4).read(0.0, "a", text)


def test_series_of_the_whole_target_are_no_further_engine():
    text = COUNTER + tokens(1.0, "3") + 'http_requests_total{handler="/",method="GET",status="2xx"} 1.0\n'
    assert PageReader(max_engines=1).read(0.0, "a", text).layout.engines == ("3",)


def test_a_reading_carries_what_the_source_said():
    text = COUNTER + tokens(1.0, model="é")
    reading = PageReader().read(12.5, "decode-3", text, took_seconds=0.25)
    assert (reading.t, reading.target, reading.took_seconds) == (12.5, "decode-3", 0.25)
    assert (reading.samples, reading.page_bytes) == (1, len(text.encode()))
