"""The page as text: golden pages, words for what is not known, and nothing foreign that becomes markup.

PDWATCH_UPDATE_GOLDEN=1 writes the golden pages again; read them before they are committed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent import __version__
from agent.outputs.page import View, page_html
from agent.outputs.page.promises import headline
from agent.state import ProblemState
from agent.verdicts.alert import Alert
from tests.golden import assert_golden
from tests.outputs.page.seen import Seen, pictures, sound
from tests.outputs.page.views import NOW, TPOT, TTFT, VIEWS, breached, leak, met, no_data, process, unknown, verdict

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_is_what_it_was(name: str) -> None:
    page = re.sub(r"\?v=[0-9a-f]{12}", "?v=HASH", page_html(VIEWS[name]())).replace(__version__, "VERSION")
    page = re.sub(r"(</(?:section|article|tr|li|h1|h2|h3|p|header|ol|thead|svg|div)>)", r"\1\n", page) + "\n"
    assert_golden(GOLDEN / f"{name}.html", page)


@pytest.mark.parametrize("name", VIEWS)
def test_every_page_is_well_formed_and_asks_nobody_else(name: str) -> None:
    sound(page_html(VIEWS[name]()))


@pytest.mark.parametrize(
    ("view", "tone", "text"),
    [
        (met(), "good", "Both promises are kept"),
        (breached(), "bad", "2 promises are broken"),
        (no_data(), "none", "No traffic: there is nothing to judge"),
        (unknown(), "none", "Not judged yet: the first pages are on their way"),
        (leak(), "bad", "Promises are kept, but 1 critical problem stands"),
        (View(met().state), "none", "No promise is configured here"),
    ],
)
def test_the_headline_says_how_things_are(view: View, tone: str, text: str) -> None:
    head = headline(view)
    assert (head.tone, head.text) == (tone, text)


@pytest.mark.parametrize(
    ("word", "text", "shown"),
    [
        ("undecided", "the bounds hold the target", "cannot tell"),
        ("insufficient_data", "only 3 requests in the last 5m, 20 needed", "too few requests"),
        ("no_data", "no traffic in the last 5m", "no traffic"),
        ("no_data", "the pages lack the metric", "not measured"),
        ("not_applicable", "it does not exist", "does not apply"),
    ],
)
def test_what_cannot_be_judged_is_said_and_never_called_kept(word: str, text: str, shown: str) -> None:
    view = met()
    state = replace(view.state, verdicts=(verdict(TTFT, word, None, text=text), verdict(TPOT, "met", 0.017)))
    seen = Seen(page_html(replace(view, state=state)))
    assert shown in seen.text
    assert text in seen.text
    assert "Both promises are kept" not in seen.text
    assert headline(replace(view, state=state)).tone == "unknown"


def test_an_objective_is_shown_with_promise_value_bounds_window_status_and_cause() -> None:
    text = Seen(page_html(breached())).text
    card = text[text.index("Mean TPOT of pool decode") - 80 : text.index("The way of a request")]
    for said in (
        "broken firing since",
        "07:50 UTC (10 min)",
        "38.5 ms",
        "promised at most 20 ms",
        "36 ms to 41 ms",
        "412 requests in the last 5 min",
        "Cause: tokens per step fell from 2.31 to 1.05",
    ):
        assert said in card, said


def test_the_broken_promise_stands_before_the_kept_one() -> None:
    view = met()
    verdicts = (verdict(TTFT, "met", 1.7), verdict(TPOT, "breached", 0.03, status="firing"))
    text = Seen(page_html(replace(view, state=replace(view.state, verdicts=verdicts)))).text
    assert text.index("Mean TPOT of pool decode") < text.index("Mean TTFT of the system")


def test_the_sections_stand_in_their_order() -> None:
    page = page_html(met())
    ids = re.findall(r'<section id="(\w+)"', page)
    assert ids == [
        "verdict",
        "flow",
        "ttft",
        "tpot",
        "speculation",
        "kv",
        "memory",
        "engines",
        "incidents",
        "slowest",
        "problems",
        "targets",
    ]


def test_incidents_lead_to_their_evidence_and_runbook() -> None:
    links = [value for tag, name, value in Seen(page_html(breached())).attributes if (tag, name) == ("a", "href")]
    assert "evidence/20270115T080000Z-PDWatchObjectiveBreached-1f0c9a3b/report.md" in links
    assert "https://runbooks.example/#pdwatchobjectivebreached" in links
    assert "https://runbooks.example/#pdwatchrankslow" in links
    assert "evidence/" in links


def test_a_pending_breach_says_when_it_will_fire() -> None:
    assert "It fires when it has stood for 2 min." in Seen(page_html(breached())).text


def test_a_leak_is_shown_with_rate_limit_and_time_left_each_with_its_interval() -> None:
    text = Seen(page_html(leak())).text
    for said in ("+2 GiB/h", "+1.9 GiB to +2.1 GiB", "limit 64 GiB", "12.0 h", "11.4 h to 12.7 h"):
        assert said in text, said


def test_the_forecast_ends_at_the_limit_line_and_the_fit_goes_through_the_last_reading() -> None:
    (chart,) = [
        each for each in pictures(page_html(leak())) if (each[0].text or "").startswith("Memory of VLLM::Worker_DP2")
    ]
    paths = {part.get("class"): part.get("d", "") for part in chart.iter() if part.tag == "path"}
    fit, forecast = (re.findall(r"[\d.]+,[\d.]+", paths[name]) for name in ("fit", "forecast"))
    assert fit[1] == forecast[0]
    # 12 h of past and 15 h ahead: 40 GiB now, 64 GiB at 12 h
    assert float(forecast[0].split(",")[0]) == pytest.approx(1000 * 12 / 27, abs=1)


def test_a_process_whose_slope_is_not_known_has_no_forecast() -> None:
    view = leak()
    lost = process(2, trend="leaking", anon_bytes=None, rss_bytes=None)
    page = page_html(replace(view, state=replace(view.state, memory=(lost,))))
    sound(page)
    assert "forecast" not in page.replace("its forecast", "")


def test_without_history_no_line_is_drawn_and_it_is_said() -> None:
    page = page_html(replace(met(), history=None))
    assert "No lines of the last 24 h" in page
    assert 'class="line"' not in re.sub("<p .*?>", "", page)
    assert "over the last 24" not in page


def test_a_gap_in_the_history_is_not_bridged() -> None:
    (chart,) = [
        each for each in pictures(page_html(met())) if each[0].text == "Mean TPOT of pool decode over the last 24.0 h"
    ]
    (line,) = [part.get("d", "") for part in chart.iter() if part.get("class") == "line"]
    assert line.count("M") == 25 - 1  # an hour apart: every point stands for itself


def test_a_sidecar_without_promises_says_who_judges() -> None:
    view = replace(leak(), mode="sidecar")
    text = Seen(page_html(replace(view, state=replace(view.state, verdicts=())))).text
    assert "the central one judges the pools" in text


HOSTILE = [
    "<script>alert(1)</script>",
    "\"' onload='alert(1)' x=\"",
    "</title></svg><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "&lt;script&gt;",
    "x" * 2000,
    "null\0bell\7escape\x1b[31m\x85",
    "lone \udc80\ud800 surrogates",
    "turned \u202egpj.exe\u2066 around",
    "marked \u061c and not \u200b\ufeffseen",
    "]]><!--",
]


@pytest.mark.parametrize("evil", HOSTILE)
def test_nothing_foreign_becomes_markup(evil: str) -> None:
    view = leak()
    state = view.state
    pools = {
        f"{evil}{name}": replace(pool, targets={f"{evil}{target}": found for target, found in pool.targets.items()})
        for name, pool in state.pools.items()
    }
    slow = tuple(
        replace(each, request=evil, link=evil, prefill=evil, parts={evil: 1.0}) for each in state.slowest_requests
    )
    state = replace(
        state,
        pools=pools,
        memory=tuple(replace(each, title=evil, target=evil, reason=evil) for each in state.memory),
        problems=(ProblemState(evil, evil, NOW, evil, "critical", evil, evil, evil),),
        slowest_requests=slow,
        verdicts=(replace(state.verdicts[0], text=evil, judged_on=evil, verdict="breached", cause={"text": evil}),),
        deployment=evil,
    )
    texts = {"summary": evil, "cause": evil, "evidence": evil, "runbook_url": evil, "dashboard_url": evil}
    alert = Alert({"alertname": evil, "severity": evil, "scope": evil, "target": evil}, NOW, texts)
    page = page_html(
        replace(
            view,
            state=state,
            deployment=evil,
            note=evil,
            alerts=(alert,),
            runbooks=evil,
            objectives=(replace(TTFT, scope="system"), TPOT),
        )
    )
    seen = sound(page)
    page.encode("utf-8")
    assert "img" not in seen.tags
    for tag, name, value in seen.attributes:
        if (tag, name) == ("a", "href"):
            assert not value.lower().startswith("javascript"), value
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", page)
    assert len(page) < 1_000_000
