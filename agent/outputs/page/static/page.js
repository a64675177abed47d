// Keeps the page fresh: asks for it again once per scrape interval and exchanges the sections that have changed.
// Focus, scrolling, opened details and a selection stay as they are. Nothing is asked while nobody looks.
(() => {
  "use strict";
  const TIMEOUT_MS = 10000;
  const LONGEST_WAIT_MS = 60000;
  const byId = (id) => document.getElementById(id);
  let failures = 0;
  let heardAt = performance.now();
  let paused = false;
  let timer = 0;

  const seconds = (value) =>
    value < 120 ? `${Math.round(value)} s` : value < 7200 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;

  function sayAge() {
    const since = (performance.now() - heardAt) / 1000;
    const shown = byId("freshness").dataset;
    if (shown.age !== undefined) {
      const age = Number(shown.age) + since;
      byId("age").textContent = `data ${seconds(age)} old`;
      byId("freshness").classList.toggle("old", age > Math.max(Number(shown.stale), 2 * Number(shown.every)));
    }
  }

  function sayLost(words) {
    const lost = byId("lost");
    if (lost.textContent !== words) lost.textContent = words;
  }

  function exchange(old, fresh) {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
    const opened = [...old.querySelectorAll("details")].map((each) => each.open);
    [...fresh.querySelectorAll("details")].forEach((each, at) => { each.open = opened[at] || false; });
    const selector = "a, summary, [tabindex]";
    const place = focused && !focused.id ? [...old.querySelectorAll(selector)].indexOf(focused) : -1;
    const id = focused && focused.id;
    old.replaceWith(fresh);
    [...fresh.querySelectorAll(".wide")].forEach((each, at) => { each.scrollLeft = scrolled[at] || 0; });
    if (focused) {
      const next = id ? byId(id) : fresh.querySelectorAll(selector)[place];
      if (next) next.focus({ preventScroll: true });
    }
  }

  function take(page) {
    const main = byId("main");
    const fresh = page.getElementById("main");
    if (!fresh) throw new Error("not a page of pdwatch");
    const selection = getSelection();
    if (!selection.isCollapsed && main.contains(selection.anchorNode)) return; // somebody is copying: next time
    document.title = page.title;
    if (byId("icon").getAttribute("href") !== page.getElementById("icon").getAttribute("href"))
      byId("icon").setAttribute("href", page.getElementById("icon").getAttribute("href"));
    byId("freshness").replaceWith(page.getElementById("freshness"));
    const parts = [...fresh.children];
    const same = parts.length === main.children.length && parts.every((each, at) => each.id === main.children[at].id);
    if (!same) return exchange(main, fresh);
    parts.forEach((each, at) => {
      const old = main.children[at];
      const before = old.cloneNode(true);
      before.querySelectorAll("details").forEach((opened) => { opened.open = false; });
      if (before.outerHTML !== each.outerHTML) exchange(old, each);
    });
  }

  async function refresh() {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      take(new DOMParser().parseFromString(await answer.text(), "text/html"));
      heardAt = performance.now();
      failures = 0;
      sayLost("");
    } catch {
      failures += 1;
      if (failures > 1) sayLost("Connection to pdwatch lost: what stands here is old and no longer changes.");
    }
    sayAge();
    const every = 1000 * Math.max(2, Number(byId("freshness").dataset.every) || 5);
    timer = setTimeout(refresh, Math.min(Math.max(every, LONGEST_WAIT_MS), every * 2 ** Math.min(failures, 4)));
  }

  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Pause";
  button.setAttribute("aria-label", "Pause updates of this page");
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-label", paused ? "Go on with updates of this page" : "Pause updates of this page");
    if (!paused) refresh();
  });
  document.querySelector("header nav").before(button);
  document.addEventListener("visibilitychange", refresh);
  setInterval(sayAge, 1000);
  timer = setTimeout(refresh, 1000 * Math.max(2, Number(byId("freshness").dataset.every) || 5));
})();
