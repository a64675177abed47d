"""The page in Debian's Chromium: looks, accessibility (axe-core), keyboard, phone width, with and without script."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

from tests.browser.conftest import Open, clock_of
from tests.browser.serving import Served

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 360, "height": 740},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
    "phone-dark": {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"},
    "tablet": {"viewport": {"width": 820, "height": 1100}},
    "forced-colors": {"forced_colors": "active"},
}
REACHABLE = "a[href], button, summary, [tabindex='0']"


@pytest.fixture(params=["broken", "silent"])
def any_served(request: pytest.FixtureRequest) -> Served:
    """Both servers, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Served)
    return found


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_is_sound_in_every_look(look: str, any_served: Served, opened: Open) -> None:
    found = opened(any_served.address, **LOOKS[look])
    page = found.page
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    width, seen, text_size = page.evaluate(
        "[document.documentElement.scrollWidth, innerWidth, parseFloat(getComputedStyle(document.body).fontSize)]"
    )
    assert width <= seen
    assert text_size >= 15
    findings = [
        f"{each['impact']} {each['id']}: {[node['target'] for node in each['nodes']][:5]}"
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert findings == []
    assert found.console == []
    assert found.failed == []


def test_axe_would_find_what_is_wrong(broken: Served, opened: Open) -> None:
    page = opened(broken.address).page
    page.evaluate("document.querySelectorAll('svg[role=img] > title').forEach((each) => each.remove())")
    assert "svg-img-alt" in {each["id"] for each in Axe().run(page).response["violations"]}


@pytest.mark.parametrize("look", ["light", "phone"])
def test_no_texts_of_a_picture_or_a_row_lie_over_each_other(look: str, broken: Served, opened: Open) -> None:
    page = opened(broken.address, **LOOKS[look]).page
    over = page.evaluate(
        """() => {
          const apart = (a, b) => a.right - 1 <= b.left || a.bottom - 1 <= b.top;
          const clash = (a, b) => !apart(a, b) && !apart(b, a);
          const found = [];
          for (const group of document.querySelectorAll('svg.pic, .fact, .line, .engine dl > div, header .bar')) {
            const texts = group.matches('svg') ? [...group.querySelectorAll('text')] : [...group.children];
            texts.forEach((one, at) => texts.slice(at + 1).forEach((other) => {
              const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
              if (a.width && b.width && clash(a, b)) found.push(`${one.textContent} | ${other.textContent}`);
            }));
          }
          return found;
        }"""
    )
    assert over == []


@pytest.mark.parametrize("look", ["light", "phone"])
def test_everything_can_be_reached_by_keyboard_and_focus_is_seen(look: str, broken: Served, opened: Open) -> None:
    page = opened(broken.address, **LOOKS[look]).page
    page.evaluate(
        f"[...document.querySelectorAll({REACHABLE!r})].filter((each) => each.checkVisibility())"
        ".forEach((each, at) => { each.dataset.number = at; })"
    )
    count = page.locator("[data-number]").count()
    assert count > 15
    reached, unseen = set(), []
    for _ in range(count):
        page.keyboard.press("Tab")
        number, outline, name = page.evaluate(
            "[document.activeElement.dataset.number, getComputedStyle(document.activeElement).outlineStyle,"
            " document.activeElement.textContent.trim() || document.activeElement.getAttribute('aria-label')]"
        )
        reached.add(number)
        if outline == "none" or not name:
            unseen.append(number)
    assert reached == {str(number) for number in range(count)}
    assert unseen == []


def test_the_first_tab_leads_past_the_header(broken: Served, opened: Open) -> None:
    page = opened(broken.address).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_without_script_the_page_says_the_same_and_loads_itself_again(broken: Served, opened: Open) -> None:
    plain = opened(broken.address, java_script_enabled=False)
    scripted = opened(broken.address)
    assert plain.console == plain.failed == []
    assert plain.page.inner_text("main") == scripted.page.inner_text("main")
    assert "http-equiv" in plain.page.content()
    assert plain.page.locator("header button").count() == 0


def test_a_breach_and_its_cause_and_a_leak_are_seen_at_once(broken: Served, opened: Open) -> None:
    page = opened(broken.address).page
    assert "A promise is broken: mean TPOT of pool decode" in page.inner_text("h1")
    assert page.title().startswith("BROKEN")
    card = page.inner_text("article.card.bad >> nth=0")
    assert "tokens per step fell from" in card
    assert "VLLM::Worker_DP0_EP0 of decode-0" in page.inner_text("#memory .card")


def test_a_fresh_page_replaces_what_changed_and_leaves_focus_scrolling_and_details_alone(
    broken: Served, opened: Open
) -> None:
    found = opened(broken.address, fake_clock=True)
    page = found.page
    page.click("#memory-rest > summary")
    page.focus("#targets .wide")
    page.evaluate("scrollTo(0, 2000)")
    before = page.evaluate("[scrollY, document.querySelector('#memory-rest').open]")
    old = page.inner_text("#targets table")
    clock = clock_of(broken.live)
    stood = clock.now
    clock.now += 7.0
    try:
        with page.expect_response(broken.address):
            page.clock.run_for(31_000)
        expect(page.locator("#targets table")).not_to_have_text(old, use_inner_text=True)
    finally:
        clock.now = stood
    assert page.evaluate("[scrollY, document.querySelector('#memory-rest').open]") == before
    assert page.evaluate("document.activeElement.closest('section').id") == "targets"
    assert found.console == found.failed == []


def test_a_paused_page_asks_for_nothing(broken: Served, opened: Open) -> None:
    found = opened(broken.address, fake_clock=True)
    asked: list[str] = []
    found.page.on("request", lambda request: asked.append(request.url))
    found.page.click("header button")
    found.page.clock.run_for(300_000)
    assert broken.address not in asked
    with found.page.expect_response(broken.address):
        found.page.click("header button")


def test_a_lost_connection_is_said_and_so_is_how_old_the_data_are(broken: Served, opened: Open) -> None:
    page = opened(broken.address, fake_clock=True).page
    assert page.inner_text("#lost") == ""
    page.route("**/*", lambda route: route.abort())
    later_until(page, "#lost:not(:empty)")
    assert "Connection to pdwatch lost" in page.inner_text("#lost")
    page.clock.run_for(120_000)
    assert "min old" in page.inner_text("#age")
    assert page.locator("#freshness.old").count() == 1
    page.unroute("**/*")
    later_until(page, "#lost:empty")


def later_until(page: Any, selector: str) -> None:
    """Lets minutes pass on the page's clock, with time for answers in between, until something is there."""
    for _ in range(30):
        page.clock.run_for(61_000)
        if page.locator(selector).count():
            return
    raise AssertionError(f"{selector} did not come")


def test_nothing_moves_by_itself_where_motion_is_not_wanted(broken: Served, opened: Open) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert opened(broken.address).page.evaluate(behaviour) == "auto"
    assert opened(broken.address, reduced_motion="no-preference").page.evaluate(behaviour) == "smooth"
