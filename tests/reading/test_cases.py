"""What others ran into with vLLM's pages: renamed and hidden names, and the traps of the text formats."""

from __future__ import annotations

import pytest

from agent.model import HistogramValue
from tests.reading.reads import counters, gauges, histograms, key, read

OLD = """\
# TYPE vllm:time_per_output_token_seconds histogram
vllm:time_per_output_token_seconds_bucket{engine="0",le="0.05",model_name="demo"} 1250
vllm:time_per_output_token_seconds_bucket{engine="0",le="+Inf",model_name="demo"} 1250
vllm:time_per_output_token_seconds_sum{engine="0",model_name="demo"} 40.0
vllm:time_per_output_token_seconds_count{engine="0",model_name="demo"} 1250
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="demo"} 0.42
"""
NEW = """\
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.05",model_name="demo"} 1250
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="demo"} 1250
vllm:inter_token_latency_seconds_sum{engine="0",model_name="demo"} 40.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="demo"} 1250
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="demo"} 0.42
"""
TRAPS = """\
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="demo model, v2"} 1234.0 1760000000000
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="demo model, v2"} 1.7e+09
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 1.7395575657589855e+09
vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.7395575723949368e+09
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="q\\"}{# x"} NaN
"""
OPENMETRICS = """\
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="demo model, v2"} 1234.0
vllm:prompt_tokens_created{engine="0",model_name="demo model, v2"} 1.7e+09
# EOF
"""


@pytest.mark.parametrize(
    ("text", "itl_name", "usage_name"),
    [
        (OLD, "vllm:time_per_output_token_seconds", "vllm:gpu_cache_usage_perc"),
        (NEW, "vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc"),
        (OLD + NEW, "vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc"),
        (NEW + OLD, "vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc"),
    ],
    ids=["old", "new", "both", "both, new first"],
)
def test_old_and_new_names_are_one_metric_and_are_never_added(text, itl_name, usage_name):
    reading = read(text)
    assert histograms(reading) == {key("itl"): HistogramValue((1250.0, 0.0), 40.0)}
    assert gauges(reading) == {key("kv_usage"): 0.42}
    assert reading.layout.names == {"itl": itl_name, "kv_usage": usage_name}


def test_the_old_time_per_output_token_is_not_the_time_per_output_token_of_a_request():
    assert "tpot" not in read(OLD).layout.names


def test_creation_times_timestamps_adapters_and_nan_are_no_values():
    reading = read(TRAPS)
    assert counters(reading) == {key("prompt_tokens"): 1234.0}
    assert gauges(reading) == {key("kv_usage"): None}
    assert reading.histograms == {}
    assert reading.problems == ()
    assert reading.samples == 5


@pytest.mark.parametrize(
    "content_type", ["", "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"]
)
def test_an_openmetrics_body_is_read_whatever_its_content_type_says(content_type):
    reading = read(OPENMETRICS, content_type)
    assert counters(reading) == {key("prompt_tokens"): 1234.0}
    assert reading.layout.names == {"prompt_tokens": "vllm:prompt_tokens_total"}
