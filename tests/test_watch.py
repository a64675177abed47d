"""The engine as a whole: what it keeps over a restart, what it lends, and what it says when no page tells anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.config import config_from_names
from agent.errors import StateError
from agent.model import FailureObservation, PageObservation
from agent.watch import Watch
from tests.pages import counter, histogram, page

NOW = 1_000_000.0
NAMES = {"prefill-0", "decode-0", "decode-1"}


def text(tokens: float) -> str:
    return page(
        counter("vllm:generation_tokens_total", tokens),
        histogram("vllm:time_to_first_token_seconds", {0.1: tokens, 1.0: tokens}, total=0.05 * tokens),
    )


def fed(watch: Watch, pages: int = 40) -> Watch:
    for turn in range(pages):
        t = NOW + 15.0 * turn
        for target in sorted(NAMES):
            watch.observe(PageObservation(t, target, text(100.0 * turn)))
        watch.evaluate(t + 1)
    return watch


def through_json(watch: Watch) -> dict[str, Any]:
    return dict(json.loads(json.dumps(dict(watch.saved()))))


DAMAGE: list[Any] = [{}, {"version": 1}, {"version": 99}, [], None, "x", {"version": 1, "format": 1, "tracks": [1]}]


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    return through_json(fed(Watch(config_from_names(NAMES)), pages=16))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_document_costs_what_is_in_it_and_nothing_else(saved: dict[str, Any], damage: Any) -> None:
    whole = Watch(config_from_names(NAMES))
    whole.restore(saved)
    wanted = through_json(whole)
    rooms = {key.split("/")[0] for key in saved}
    assert {"objectives", "incidents", "windows", "recovered"} <= rooms
    for key in ["objectives", "incidents", "windows/page/decode-0", "windows/pool/decode", "recovered/decode/ttft"]:
        watch = Watch(config_from_names(NAMES))
        with pytest.raises(StateError, match=f"1 of {len(saved)} saved documents .* begin anew: {key}"):
            watch.restore({key: damage, **{name: body for name, body in saved.items() if name != key}})
        again = through_json(watch)
        assert {name for name in wanted if again.get(name) != wanted[name]} <= {key}


def test_an_error_names_the_first_lost_documents_and_counts_the_rest() -> None:
    lost: dict[str, Any] = {f"windows/slot/decode/fine/{60 * slot}": {"version": 99} for slot in range(9)}
    with pytest.raises(StateError, match=r"9 of 9 .*version 99, not 1.*and 6 more$"):
        Watch(config_from_names(NAMES)).restore(lost)


def test_what_no_page_tells_is_not_known_and_neither_idle_nor_missing() -> None:
    watch = Watch(config_from_names(NAMES))
    watch.observe(FailureObservation(NOW, "decode-0", "refused"))
    state = watch.state(NOW + 1)
    ttft = state.pools["decode"].latency["ttft"]
    assert (ttft.status, ttft.count, ttft.mean) == ("no_data", None, None)
    assert (state.system.ttft.status, state.system.ttft.count) == ("no_data", None)
    assert state.pools["decode"].kv_transfer.time.status == "no_data"
    assert state.pools["decode"].throughput.generation_tokens_per_s is None


def test_an_idle_server_has_a_count_of_zero() -> None:
    watch = Watch(config_from_names(NAMES))
    for turn in range(3):
        watch.observe(PageObservation(NOW + 5 * turn, "decode-0", text(0.0)))
    ttft = watch.state(NOW + 11).pools["decode"].latency["ttft"]
    assert (ttft.status, ttft.count) == ("no_data", 0)
    assert watch.state(NOW + 11).pools["decode"].latency["itl"].status == "metric_missing"


@pytest.mark.parametrize("value", ["NaN", "-5.0", "three"])
def test_a_counter_without_a_usable_value_gives_no_rate(value: str) -> None:
    watch = Watch(config_from_names(NAMES))
    for turn in range(4):
        good = f'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {10.0 * turn}\n'
        bad = f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {value}\n'
        types = "# TYPE vllm:prompt_tokens_total counter\n", "# TYPE vllm:generation_tokens_total counter\n"
        watch.observe(PageObservation(NOW + 5 * turn, "decode-0", types[0] + good + types[1] + bad))
    throughput = watch.state(NOW + 16).pools["decode"].throughput
    assert throughput.prompt_tokens_per_s == 2.0
    assert throughput.generation_tokens_per_s is None


def test_what_was_found_is_lent_only_while_nothing_new_has_come() -> None:
    watch = fed(Watch(config_from_names(NAMES)))
    now = NOW + 15.0 * 39 + 1
    first = watch.state(now)
    assert watch._findings.over(now - 300.0, now) is watch._findings.over(now - 300.0, now)
    watch.observe(PageObservation(now + 1, "decode-0", text(9000.0)))
    later = watch.state(now + 2).pools["decode"].latency["ttft"].count
    assert first.pools["decode"].latency["ttft"].count == 2 * 100 * 20
    assert later is not None
    assert later > 4000


def test_plain_states_are_shared_until_the_next_evaluation() -> None:
    watch = fed(Watch(config_from_names(NAMES)))
    now = NOW + 15.0 * 39 + 1
    plain = watch.state(now, recover=False)
    assert watch.state(now + 2, recover=False) is plain
    assert watch.state(now + 2).at == now + 2
    watch.evaluate(now + 3)
    assert watch.state(now + 3, recover=False).at == now + 3
