"""Every query: names that somebody exports, counters only as rates, and a text that Prometheus reads."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from agent.catalogue import CATALOGUE
from agent.export.dashboards.queries import Own
from agent.export.dashboards.vllm_queries import MORE_COUNTERS, MORE_HISTOGRAMS
from agent.export.dashboards.write import default_config
from agent.export.rules.families import pdwatch_family, vllm_family
from agent.export.rules.vllm_names import COUNTERS, GAUGES, HISTOGRAMS, HTTP_REQUESTS
from agent.reading import names as reading_names
from tests.export.dashboards.made import boards, queries
from tests.export.dashboards.variables import filled

SERIES = re.compile(r"(?<![\w:])([a-zA-Z_:][\w:]*)\{")
PARTS = ("_bucket", "_sum", "_count")
RECORDED = {
    rule.record
    for family in (vllm_family(default_config()), pdwatch_family(default_config()))
    for rule in family.recordings()
}
VLLM_COUNTERS = {f"vllm:{name}" for names in COUNTERS.values() for name in names} | {HTTP_REQUESTS}
VLLM_COUNTERS |= {f"vllm:{name}" for name in MORE_COUNTERS.values()}
VLLM_GAUGES = {f"vllm:{name}" for names in GAUGES.values() for name in names}
VLLM_HISTOGRAMS = {f"vllm:{name}" for names in HISTOGRAMS.values() for name in names}
VLLM_HISTOGRAMS |= {f"vllm:{name}" for name in MORE_HISTOGRAMS.values()}
PROMETHEUS = {"ALERTS", "up", "process_start_time_seconds"}
"""Of Prometheus itself, of every scrape, and of every server that has one process for its page."""

each_board = pytest.mark.parametrize("word", boards())
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def base(name: str) -> str:
    """A histogram's name from one of its parts."""
    whole = next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)
    return whole if whole in CATALOGUE or whole in VLLM_HISTOGRAMS else name


def is_counter(name: str) -> bool:
    if name in CATALOGUE:
        return CATALOGUE[name].kind == "counter"
    return name in VLLM_COUNTERS or base(name) != name


def all_expressions() -> dict[str, str]:
    """Where -> expression: panels, annotations, and what variables are filled from."""
    found = {asked.name: asked.expr for asked in queries()}
    for word, board in boards().items():
        for one in board["annotations"]["list"]:
            found[f"{word} / annotation {one['name']}"] = one["expr"]
        for one in board["templating"]["list"]:
            if one["type"] == "query":
                found[f"{word} / variable {one['name']}"] = (
                    one["definition"].removeprefix("label_values(").rpartition(",")[0]
                )
    return found


def test_every_metric_is_exported_by_somebody() -> None:
    known = set(CATALOGUE) | RECORDED | VLLM_COUNTERS | VLLM_GAUGES | VLLM_HISTOGRAMS | PROMETHEUS
    for where, expr in all_expressions().items():
        names = set(SERIES.findall(re.sub(r"\$\{\w+\}", "1", expr))) or {expr}
        assert {base(name) for name in names} <= known, where


@each_board
def test_boards_of_one_family_do_not_need_the_other(word: str) -> None:
    for asked in queries(word):
        names = set(SERIES.findall(re.sub(r"\$\{\w+\}", "1", asked.expr)))
        if asked.board.startswith("vllm-"):
            assert not any(name.startswith("pdwatch_") for name in names)
        else:
            assert not any("vllm" in name for name in names)


@each_board
def test_a_counter_is_never_shown_raw_and_a_gauge_never_as_a_rate(word: str) -> None:
    for asked in queries(word):
        for found in SERIES.finditer(re.sub(r"\$\{\w+\}", "1", asked.expr)):
            before = asked.expr[: found.start()]
            inside = re.search(r"(rate|irate|increase|changes)\($", before)
            if is_counter(found[1]):
                assert inside, asked.expr
            elif found[1] in CATALOGUE or found[1] in VLLM_GAUGES:
                assert not inside, asked.expr


@each_board
def test_no_share_divides_by_zero_into_not_a_number(word: str) -> None:
    """0/0 is NaN, which is drawn as nothing without saying so; a denominator that may be 0 is filtered instead."""
    for asked in queries(word):
        if asked.panel["title"] in ("Headroom now", "Budget left", "Time kept"):
            continue  # by a promised value or a number of seconds, which are not 0
        for found in re.finditer(r"/ (?:on \([^)]*\) group_left \(\) )?", asked.expr):
            assert asked.expr[found.end() :].startswith("("), asked.expr
        divided = len(re.findall(r"/ ", asked.expr))
        assert asked.expr.count(" > 0)") >= divided, asked.expr


@each_board
def test_percentiles_are_never_averaged(word: str) -> None:
    for asked in queries(word):
        assert not re.search(r"\b(avg|sum)\b[^)]*\((?:[^()]|\([^()]*\))*percentile", asked.expr)


@needs_promtool
def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"check:{number}", "expr": filled(expr), "labels": {"where": where}}
        for number, (where, expr) in enumerate(all_expressions().items())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout


def test_the_names_beyond_those_of_the_rules_are_those_that_pages_are_read_by() -> None:
    text = Path(reading_names.__file__).read_text(encoding="utf-8")
    for name in (*MORE_COUNTERS.values(), *MORE_HISTOGRAMS.values()):
        assert re.search(rf'"(vllm:)?{name.removesuffix("_total")}(_total)?"', text), name


def test_a_name_or_label_that_the_catalogue_lacks_is_an_error() -> None:
    own = Own(pool="pool")
    with pytest.raises(KeyError):
        own.now("pool_ttft_median_seconds")
    with pytest.raises(ValueError, match="has no label"):
        own.series("pool_gpus", engine="0")
    with pytest.raises(ValueError, match="is a gauge"):
        own.rate("pool_gpus")
    with pytest.raises(ValueError, match="has the labels"):
        own.now("pool_gpus", ("target",))
