"""What single targets show: no page, another page, metrics that are missing, pages that cost too much."""

from __future__ import annotations

import pytest

from agent.check import Answer
from agent.config import Router, Scrape, Target
from agent.model import FailureObservation
from tests.check.fleet import NOW, answer, checked, codes, configured, only, prefill_page, vllm_page
from tests.pages import counter, page

ONE = {"decode": ["decode-0"]}
BOTH = {"prefill": ["prefill-0"], "decode": ["decode-0"]}


def test_a_sound_fleet_has_no_warnings() -> None:
    report = checked(
        configured(BOTH),
        answer("prefill-0", prefill_page(1000), prefill_page(1020), version="0.32.0"),
        answer("decode-0", vllm_page(1000), vllm_page(1020), version="0.32.0"),
    )
    assert [finding for finding in report.findings if finding.level != "info"] == []
    assert report.exit_code == 0


def test_a_target_without_a_page_says_why_and_what_to_try() -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", None, None)), "unreachable")
    assert (found.level, found.where) == ("error", ("decode-0",))
    assert found.text == "refused: connection refused"
    assert "port" in found.help


def test_a_target_that_answers_every_other_time_is_a_warning() -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", None, vllm_page())), "unreachable")
    assert found.level == "warning"
    assert found.text.startswith("1 of 2 fetches failed")


@pytest.mark.parametrize(
    ("word", "help_"),
    [("http_401", "auth"), ("http_404", "/metrics"), ("too_large", "max_page_bytes"), ("new", "error")],
)
def test_every_failure_has_an_advice(word: str, help_: str) -> None:
    failed = Answer("decode-0", (FailureObservation(NOW, "decode-0", word, ""),))
    (found,) = only(checked(configured(ONE), failed), "unreachable")
    assert help_ in found.help


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!DOCTYPE html><html></html>\n", "HTML"),
        (page(counter("node_cpu_seconds_total", 4, None)), "no metric of vLLM's"),
        (page(counter("dynamo_frontend_requests_total", 4, None)), "router"),
        ("", "empty"),
    ],
)
def test_a_page_that_is_not_vllms_is_named_for_what_it_is(text: str, said: str) -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", text, text)), "not_vllm")
    assert found.level == "error"
    assert said in found.text


def test_a_page_that_was_cut_off_is_unusable() -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", vllm_page()[:-20])), "unusable_page")
    assert found.level == "error"


def test_one_broken_series_leaves_the_rest_and_is_a_warning() -> None:
    broken = vllm_page().replace(
        '_total{engine="0",model_name="demo"} 50000.0', '_total{engine="0",model_name="demo"} -1.0'
    )
    (found,) = only(checked(configured(ONE), answer("decode-0", broken, broken)), "unusable_page")
    assert found.level == "warning"
    assert "negative" in found.text


def test_a_missing_metric_says_what_it_costs_and_which_version_has_it() -> None:
    lacking = vllm_page(without=["request_time_per_output_token", "waiting_by_reason"])
    old = only(checked(configured(ONE), answer("decode-0", lacking, version="0.10.2")), "metric_missing")
    assert [(finding.level, finding.text.split(":")[0]) for finding in old] == [
        ("warning", "no tpot on the page"),
        ("info", "no waiting_by_reason on the page"),
    ]
    assert old[0].help == "vLLM 0.11.2 and later have it; this is 0.10.2"
    new = only(checked(configured(ONE), answer("decode-0", lacking, version="0.32.0")), "metric_missing")
    assert "drop or rename" in new[0].help
    unknown = only(checked(configured(ONE), answer("decode-0", lacking)), "metric_missing")
    assert unknown[0].help == "vLLM 0.11.2 and later have it"


def test_missing_kv_transfers_name_the_connectors_that_show_them() -> None:
    lacking = vllm_page(without=["nixl_xfer"])
    (found,) = only(checked(configured(ONE), answer("decode-0", lacking, version="0.32.0")), "metric_missing")
    assert "NIXL" in found.help


def test_what_a_newer_vllm_would_add_is_said_only_where_the_version_is_known() -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", vllm_page(), version="0.16.0")), "newer_vllm_shows")
    assert "in which stage KV fetches are; the deferred reason remains (0.32)" in found.text
    assert "newer_vllm_shows" not in codes(checked(configured(ONE), answer("decode-0", vllm_page())))
    assert "newer_vllm_shows" not in codes(checked(configured(ONE), answer("decode-0", vllm_page(), version="nightly")))


@pytest.mark.parametrize(("version", "said"), [("0.16.0", True), ("0.20.0", False), (None, False)])
def test_ttft_that_leaves_tokenizing_out_is_said(version: str | None, said: bool) -> None:
    report = checked(configured(ONE), answer("decode-0", vllm_page(), version=version))
    assert ("ttft_without_tokenizing" in codes(report)) is said


def multiprocess(text: str) -> str:
    """The same page as several API servers give it: sums before buckets, no process metrics."""
    lines: list[str] = []
    buckets: list[str] = []
    for line in text.splitlines():
        if "_bucket{" in line:
            buckets.append(line)
        elif "_sum{" in line:
            lines += [line, *buckets]
            buckets = []
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_a_page_of_several_api_servers_is_explained() -> None:
    two = multiprocess(vllm_page(engines=2, started=None))
    (found,) = only(checked(configured(ONE), answer("decode-0", two, two)), "multiprocess_page")
    assert found.level == "info"
    assert "--api-server-count 1" in found.help
    assert "PROMETHEUS_MULTIPROC_DIR" not in found.text
    one = multiprocess(vllm_page(started=None))
    (found,) = only(checked(configured(ONE), answer("decode-0", one, one)), "multiprocess_page")
    assert "PROMETHEUS_MULTIPROC_DIR" in found.text


@pytest.mark.parametrize(("took_seconds", "said"), [(0.4, False), (0.6, True)])
def test_a_page_that_takes_a_tenth_of_the_interval_is_too_slow(took_seconds: float, said: bool) -> None:
    report = checked(configured(ONE), answer("decode-0", vllm_page(), took_seconds=took_seconds))
    assert ("slow_page" in codes(report)) is said


def test_a_page_near_the_limit_is_said_before_it_is_refused() -> None:
    size = len(vllm_page())
    config = configured(ONE, scrape=Scrape(max_page_bytes=int(1.5 * size)))
    assert "large_page" in codes(checked(config, answer("decode-0", vllm_page())))
    config = configured(ONE, scrape=Scrape(max_page_bytes=3 * size))
    assert "large_page" not in codes(checked(config, answer("decode-0", vllm_page())))


def test_counters_that_fall_between_two_pages_are_said() -> None:
    report = checked(configured(ONE), answer("decode-0", vllm_page(1000), vllm_page(400)))
    (found,) = only(report, "inconsistent_source")
    assert "balancer" in found.help


def test_an_engine_that_is_left_out_between_others_is_missing() -> None:
    gap = vllm_page(engines=3).replace('engine="1"', 'engine="7"')
    (found,) = only(checked(configured(ONE), answer("decode-0", gap)), "engine_missing")
    assert found.text == "the page has engines 0 to 7, but not 1, 3, 4, 5, 6"


def test_a_kv_cache_smaller_than_the_longest_promised_prompt_is_said() -> None:
    (found,) = only(checked(configured(ONE), answer("decode-0", vllm_page(kv_tokens=100_000))), "kv_capacity_short")
    assert "100000 tokens" in found.text
    assert "262144" in found.text


def test_a_router_is_asked_for_the_metrics_of_its_kind() -> None:
    router = Router(kind="dynamo", targets=(Target("front", "http://front:8000/metrics"),))
    decode = answer("decode-0", vllm_page())
    right = page(counter("dynamo_frontend_requests_total", 4, None))
    assert "not_router" not in codes(checked(configured(ONE, router=router), decode, answer("front", right)))
    (found,) = only(checked(configured(ONE, router=router), decode, answer("front", vllm_page())), "not_router")
    assert "dynamo_frontend_" in found.text
    (found,) = only(checked(configured(ONE, router=router), decode, answer("front", None)), "unreachable")
    assert found.where == ("front",)


def test_the_same_said_of_many_targets_is_said_once() -> None:
    names = [f"decode-{i}" for i in range(5)]
    report = checked(configured({"decode": names}), *(answer(name, None, None) for name in names))
    (found,) = only(report, "unreachable")
    assert found.where == tuple(names)
