"""Variants of the cases in which engines, replicas or versions are added up: one part must not speak for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.config import Objective, config_from_names
from agent.model import FailureObservation, PageObservation
from agent.state import Speculation, State, VerdictState
from agent.watch import Watch
from tests.cases.fleet import watched, window_of
from tests.pages import counter, gauge, histogram, page, zeroed

TPOT = "vllm:request_time_per_output_token_seconds"
LENGTHS = "vllm:request_generation_tokens"
ITL = "vllm:inter_token_latency_seconds"
TTFT = "vllm:time_to_first_token_seconds"
QUEUE = "vllm:request_queue_time_seconds"


def drafting(
    drafts: float, tokens: float | None, accepted: float | None, engine: str = "0", positions: tuple[float, ...] = ()
) -> list[str]:
    given = {"drafts": drafts, "draft_tokens": tokens, "accepted_tokens": accepted}
    families = [
        counter(f"vllm:spec_decode_num_{name}_total", value, engine)
        for name, value in given.items()
        if value is not None
    ]
    return families + [
        counter("vllm:spec_decode_num_accepted_tokens_per_pos_total", value, engine, position=str(position))
        for position, value in enumerate(positions)
    ]


def decode_of(*pages: str) -> State:
    return watched({f"decode-{number}": [zeroed(text), text] for number, text in enumerate(pages)})


def speculation_of(*pages: str) -> Speculation:
    found = decode_of(*pages).pools["decode"].speculation
    assert found is not None
    return found


def judged(objective: Objective, text: Callable[[float], str], minutes: float = 8.0) -> VerdictState:
    """The verdict after some minutes of pages every fifteen seconds; `text` is given the page's number."""
    watch = Watch(replace(config_from_names(["decode-0"]), objectives=(objective,)))
    for step in range(int(4 * minutes) + 1):
        watch.observe(PageObservation(1.79e9 + 15.0 * step, "decode-0", text(step)))
        watch.evaluate(1.79e9 + 15.0 * step)
    (verdict,) = watch.state(1.79e9 + 900.0 * minutes / 15.0).verdicts
    return verdict


@pytest.mark.parametrize(("tokens", "accepted"), [(1000.0, None), (None, 600.0), (None, None)])
@pytest.mark.parametrize("same_page", [True, False])
def test_c32_an_engine_that_lacks_a_count_of_drafts_does_not_falsify_the_others(
    same_page: bool, tokens: float | None, accepted: float | None
) -> None:
    whole = drafting(1000, 1000, 800)
    part = drafting(1000, tokens, accepted, "1" if same_page else "0")
    found = speculation_of(page(*whole, *part)) if same_page else speculation_of(page(*whole), page(*part))
    assert found.acceptance_rate == pytest.approx(0.8)
    assert found.acceptance_length == pytest.approx(1.8)
    assert (found.drafts, found.accepted_tokens) == (1000, 800)


def test_c32_padding_is_as_deep_as_each_engine_drafts() -> None:
    served = [histogram(ITL, {0.05: 900}, 20.0), histogram(TTFT, {1.0: 100}, 50.0)]
    found = speculation_of(
        page(*drafting(1000, 1000, 800, positions=(800,)), *served),
        page(*drafting(1000, 3000, 1500, positions=(800, 500, 200)), *served),
    )
    assert found.padded_drafts == 200
    assert found.acceptance_rate == pytest.approx(2300 / (900 + 2700))
    assert found.acceptance_length == pytest.approx(1 + 2300 / 1800)


def test_c32_padding_of_eight_engines_is_taken_out_of_each() -> None:
    families: list[str] = []
    for rank in range(8):
        n, engine = rank + 1, str(rank)
        families += drafting(100 * n, 300 * n, 100 * n, engine, (60 * n, 30 * n, 10 * n))
        families += [histogram(ITL, {0.05: 100 * n - 10}, 3.0, engine), histogram(TTFT, {1: 10}, 5.0, engine)]
    found = speculation_of(page(*families))
    assert found.padded_drafts == 80
    assert found.acceptance_length == pytest.approx(1 + 3600 / 3520)
    assert found.acceptance_rate == pytest.approx(3600 / (10800 - 3 * 80))


def test_c32_steps_of_an_engine_without_drafts_do_not_hide_the_padding_from_the_objective() -> None:
    def text(n: float) -> str:
        return page(
            *drafting(200 * n, 200 * n, 80 * n),
            histogram(ITL, {0.05: 100 * n}, 3.0 * n),
            histogram(TTFT, {1.0: 100 * n}, 10.0 * n),
            histogram(ITL, {0.05: 1000 * n}, 30.0 * n, "1"),
            histogram(TTFT, {1.0: 100 * n}, 10.0 * n, "1"),
        )

    verdict = judged(Objective(indicator="acceptance_length", scope="decode", target=1.5), text)
    assert verdict.verdict == "met"
    assert verdict.value == pytest.approx(1.8)


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_c07_a_token_mean_of_engines_that_lack_a_part_of_it_is_unknown_and_not_half(lacking: int) -> None:
    whole = [
        histogram(ITL, {0.05: 1000}, 40.0),
        counter("vllm:generation_tokens_total", 2000),
        histogram(TTFT, {1.0: 50}, 10.0),
    ]
    part = [family for index, family in enumerate(whole) if index != lacking]
    pool = decode_of(page(*whole), page(*part)).pools["decode"]
    assert pool.tpot_token_mean is None
    assert pool.targets["decode-0"].engines["0"].tpot_token_mean == pytest.approx(40 / 1950)
    assert decode_of(page(*whole), page(*whole)).pools["decode"].tpot_token_mean == pytest.approx(40 / 1950)


def test_c10_one_engine_whose_times_add_up_to_zero_does_not_make_its_pool_look_fast() -> None:
    def text(n: float) -> str:
        return page(
            histogram(TTFT, {0.001: 0, 10.0: 5 * n}, 45.0 * n), histogram(TTFT, {0.001: 45 * n, 10.0: 45 * n}, 0.0, "1")
        )

    verdict = judged(Objective(indicator="ttft", scope="decode", target=2.0), text)
    assert (verdict.verdict, verdict.status) == ("breached", "firing")
    assert verdict.value == pytest.approx(9.0)
    state = window_of(text(10))
    assert state.pools["decode"].latency["ttft"].mean == pytest.approx(9.0)
    assert "implausible" in {problem.code for problem in state.problems}


def of_model(model: str, family: str) -> str:
    return family.replace('model_name="demo"', f'model_name="{model}"')


def test_c27_zeros_of_two_models_on_one_page_are_taken_out_of_both() -> None:
    text = page(
        of_model("a", histogram(TPOT, {0.01: 10, 0.05: 30}, 0.8)),
        of_model("b", histogram(TPOT, {0.01: 5, 0.05: 25}, 0.6)),
        of_model("a", histogram(LENGTHS, {1.0: 10, 1000.0: 30}, 9000)),
        of_model("b", histogram(LENGTHS, {1.0: 5, 1000.0: 25}, 9000)),
    )
    tpot = window_of(text).pools["decode"].latency["tpot"]
    assert tpot.count == 40
    assert tpot.mean == pytest.approx(1.4 / 40)


@pytest.mark.parametrize("lengths", [[], [histogram(LENGTHS, {16.0: 100, 1000.0: 200}, 50_000)]])
def test_c27_zeros_that_cannot_be_taken_out_are_said(lengths: list[str]) -> None:
    tpot = histogram(TPOT, {0.01: 100, 0.05: 200}, 4.0)
    said = {problem.evidence.get("metric"): problem for problem in window_of(page(tpot, *lengths)).problems}
    assert "TPOT seems shorter than it is" in said["generation_tokens_histogram"].text
    told = histogram(LENGTHS, {1.0: 100, 1000.0: 200}, 50_000)
    quiet = {problem.evidence.get("metric") for problem in window_of(page(tpot, told)).problems}
    assert "generation_tokens_histogram" not in quiet


def test_c27_one_token_requests_that_flood_decode_do_not_hide_a_breach() -> None:
    def text(n: float) -> str:
        return page(
            histogram(TPOT, {0.01: 15 * n, 0.05: 20 * n}, 0.2 * n), histogram(LENGTHS, {1.0: 15 * n, 1000.0: 20 * n}, n)
        )

    verdict = judged(Objective(indicator="tpot", scope="decode", target=0.02), text)
    assert (verdict.verdict, verdict.status) == ("breached", "firing")
    assert verdict.value == pytest.approx(0.04)


def ray(**replicas: float) -> str:
    """A page of Ray's with one engine 0 per replica; each gave the tokens it is called with."""
    names = ("generation_tokens", "prompt_tokens", "num_preemptions")
    return page(
        *(
            family.replace('engine="0"', f'ReplicaId="{name}",engine="0"')
            for metric in names
            for name, tokens in replicas.items()
            for family in (counter(f"ray_vllm_{metric}", tokens),)
        ),
        *(
            gauge("ray_vllm_num_requests_running", 3).replace('engine="0"', f'ReplicaId="{name}",engine="0"')
            for name in replicas
        ),
    )


def tokens_per_second(*pages: str) -> float | None:
    return watched({"decode-0": pages}).pools["decode"].throughput.generation_tokens_per_s


def test_c03_of_two_replicas_behind_one_page_the_one_that_restarted_begins_anew() -> None:
    found = tokens_per_second(ray(a=1000, b=1000), ray(a=1500, b=1600), ray(a=300, b=2000))
    assert found == pytest.approx((500 + 600 + 300 + 400) / 30)


def test_c03_replicas_that_come_and_go_behind_one_page_bring_no_lifetimes() -> None:
    coming = tokens_per_second(ray(a=50_000), ray(a=50_300), ray(a=50_600, b=7_000), ray(a=50_900, b=7_300))
    assert coming == pytest.approx((300 + 0 + 600) / 45)
    going = tokens_per_second(ray(a=1000), ray(a=2000, b=10), ray(a=5000, b=20), ray(a=6000), ray(a=6300), ray(a=6600))
    assert going == pytest.approx((0 + 3010 + 0 + 300 + 300) / 75)


def test_c34_gauges_of_replicas_behind_one_page_are_added() -> None:
    state = watched({"decode-0": [ray(a=1, b=1)]})
    assert state.pools["decode"].load.running == 6
    assert state.pools["decode"].targets["decode-0"].engines["0"].load.running == 6


def test_c29_more_leases_than_requests_make_no_share_above_one() -> None:
    prefill = page(counter("vllm:nixl_num_kv_expired_reqs_total", 50))
    decode = page(counter("vllm:request_success_total", 42, finished_reason="stop"))
    state = watched({"prefill-0": [zeroed(prefill), prefill], "decode-0": [zeroed(decode), decode]})
    (expired,) = [problem for problem in state.problems if problem.code == "kv_expired"]
    assert expired.evidence["share"] is None
    assert "50 KV leases" in expired.text
    assert "%" not in expired.text


def test_c29_a_counter_of_leases_that_appears_with_its_first_lease_is_counted() -> None:
    before = page(counter("vllm:generation_tokens_total", 1))
    after = page(counter("vllm:generation_tokens_total", 2), counter("vllm:nixl_num_kv_expired_reqs_total", 3))
    assert watched({"prefill-0": [before, after]}).pools["prefill"].kv_transfer.expired == 3


def test_c03_one_of_eight_engines_that_restarts_leaves_the_others_alone() -> None:
    def text(*counts: float) -> str:
        return page(
            *(counter("vllm:generation_tokens_total", 10 * n, str(rank)) for rank, n in enumerate(counts)),
            *(histogram(TTFT, {1.0: n}, 0.5 * n, str(rank)) for rank, n in enumerate(counts)),
        )

    pool = watched({"decode-0": [text(*[1000] * 8), text(*[1100] * 8), text(*[1200] * 3, 7, *[1200] * 4)]}).pools[
        "decode"
    ]
    assert pool.latency["ttft"].count == 800 + 700 + 7
    assert pool.latency["ttft"].mean == pytest.approx(0.5)
    assert pool.targets["decode-0"].restarts == 1


def test_c03_a_server_that_comes_back_with_other_engines_and_buckets_counts_from_zero() -> None:
    def text(engines: int, n: float, edge: float) -> str:
        return page(
            *(histogram(TTFT, {edge: n, 4.0: n}, 0.1 * n, str(rank)) for rank in range(engines)),
            *(counter("vllm:generation_tokens_total", 10 * n, str(rank)) for rank in range(engines)),
        )

    pages = [text(8, 1000, 0.25), text(8, 1100, 0.25), None, None, text(4, 10, 0.2), text(4, 30, 0.2)]
    state = watched({"decode-0": pages})
    assert state.pools["decode"].latency["ttft"].count == 8 * 100 + 4 * 30
    assert state.pools["decode"].latency["ttft"].mean == pytest.approx(0.1)
    assert "engine_missing" in {problem.code for problem in state.problems}


def test_c01_an_upgrade_in_the_middle_of_a_window_goes_on_under_the_new_name() -> None:
    def text(itl: str, usage: str, n: float) -> str:
        return page(
            histogram(itl, {0.05: n}, 0.03 * n),
            counter("vllm:generation_tokens_total", 2 * n),
            gauge(usage, 0.4),
        )

    old = ("vllm:time_per_output_token_seconds", "vllm:gpu_cache_usage_perc")
    new = (ITL, "vllm:kv_cache_usage_perc")
    pages = [text(*old, 1000), text(*old, 1100), None, text(*new, 50), text(*new, 80)]
    pool = watched({"decode-0": pages}).pools["decode"]
    assert pool.latency["itl"].count == 180
    assert pool.latency["itl"].mean == pytest.approx(0.03)
    assert pool.targets["decode-0"].restarts == 1


def test_a_failed_kv_load_that_pushes_queue_sums_back_is_no_restart_and_no_mean() -> None:
    def text(n: float, failed: float, queue: float) -> str:
        return page(
            histogram(QUEUE, {0.3: n}, queue),
            histogram(TTFT, {0.25: n}, 0.1 * n),
            counter("vllm:request_success_total", n - failed, finished_reason="stop"),
            counter("vllm:request_success_total", failed, finished_reason="error"),
        )

    pages = [text(10, 0, 1.0), text(20, 1, 1.9 - 900), text(30, 1, 2.9 - 900), text(40, 1, 3.9 - 900)]
    pool = watched({"decode-0": pages}).pools["decode"]
    assert pool.targets["decode-0"].restarts == 0
    assert (pool.latency["queue"].count, pool.latency["ttft"].count) == (30, 30)
    assert pool.latency["queue"].mean == pytest.approx(0.1)
    assert pool.latency["ttft"].mean == pytest.approx(0.1)


def test_c12_a_breach_that_ends_in_silence_neither_resolves_nor_pages_again() -> None:
    watch = Watch(
        replace(config_from_names(["decode-0"]), objectives=(Objective(indicator="ttft", scope="decode", target=2.0),))
    )
    changes: list[str] = []
    for step in range(120):
        now, n = 1.79e9 + 15.0 * step, 5.0 * min(step, 20)
        if step % 4 == 3:
            watch.observe(FailureObservation(now, "decode-0", "timeout"))
        else:
            watch.observe(PageObservation(now, "decode-0", page(histogram(TTFT, {1.0: 0, 10.0: n}, 9.0 * n))))
        changes += [str(change.step.triggered) for change in watch.evaluate(now) if hasattr(change, "step")]
    (verdict,) = watch.state(1.79e9 + 15.0 * 119).verdicts
    assert (verdict.verdict, verdict.status) == ("no_data", "firing")
    assert changes == ["True"]


def test_c32_without_drafts_the_alert_of_a_collapse_neither_fires_nor_clears() -> None:
    watch = Watch(config_from_names(["decode-0"]))
    steps, drafts, accepted, told = 0.0, 0.0, 0.0, {}
    for step in range(4 * 80):
        minute, steps = step / 4, steps + 1200
        if minute < 40 or minute >= 70:
            drafts += 1200
        if minute < 10 or minute >= 70:
            accepted += 936
        text = page(
            *drafting(drafts, drafts, accepted),
            histogram(ITL, {0.05: steps}, 0.01 * steps),
            histogram(TTFT, {1.0: steps / 100}, steps / 200),
            histogram(TPOT, {0.01: 0, 0.025: steps / 100}, steps / 100 * 0.015),
            histogram(LENGTHS, {1.0: 0, 1000.0: steps / 100}, steps),
            counter("vllm:generation_tokens_total", steps + accepted),
            counter("vllm:request_success_total", steps / 100, finished_reason="stop"),
            gauge("vllm:kv_cache_usage_perc", 0.4),
        )
        watch.observe(PageObservation(1.79e9 + 15.0 * step, "decode-0", text))
        watch.evaluate(1.79e9 + 15.0 * step)
        active = [alert for alert in watch.incidents.alerts if alert.labels.get("code") == "speculation_ineffective"]
        told[minute] = bool(active) and active[0].ends_at is None
    assert told[30.0], "half an hour in which not one draft is accepted"
    assert all(told[minute] for minute in (45.0, 55.0, 69.0)), "no drafts say nothing of acceptance"
    assert not told[9.0]


def test_c34_one_hot_engine_of_ten_is_a_skew_and_no_lack_of_capacity() -> None:
    watch = Watch(config_from_names([f"decode-{number}" for number in range(10)]))
    for step in range(33):
        for number in range(10):
            text = page(
                gauge("vllm:kv_cache_usage_perc", 0.95 if number == 0 else 0.017),
                gauge("vllm:num_requests_running", 3),
                counter("vllm:generation_tokens_total", 100 * step),
            )
            watch.observe(PageObservation(1.79e9 + 15.0 * step, f"decode-{number}", text))
    said = {
        problem.code: problem
        for problem in watch.state(1.79e9 + 15.0 * 32).problems
        if problem.code != "metric_missing"
    }
    assert said.keys() == {"pool_imbalance"}
    assert said["pool_imbalance"].text.startswith("skew")
    assert said["pool_imbalance"].target == "decode-0"
