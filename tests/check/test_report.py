"""How a check is told: the whole text of one, its JSON, and that every code is explained in the documentation."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from agent.check.findings import CODES, Finding, exit_code, gathered
from agent.check.report import as_json, as_text
from agent.config import Objective
from tests.check.fleet import answer, checked, configured, prefill_page, vllm_page

GOLDEN = Path(__file__).with_name("golden_report.txt")
OBJECTIVES = [
    Objective(indicator="ttft", scope="system", target=2.5),
    Objective(name="tpot", indicator="tpot", scope="decode", statistic="share", objective_ratio=0.95, target=0.02),
    Objective(name="ttft-decode", indicator="ttft", scope="decode", statistic="p95", target=0.5, min_requests=5000),
]


def report():
    config = configured({"prefill": ["prefill-0"], "decode": ["decode-0", "decode-1", "decode-2"]}, OBJECTIVES)
    return checked(
        config,
        answer("prefill-0", prefill_page(1000), prefill_page(1020), version="0.32.0"),
        answer("decode-0", vllm_page(1000), vllm_page(1010), version="0.32.0", took_seconds=0.9),
        answer("decode-1", vllm_page(700, engines=2, started=5.0), vllm_page(705, engines=2, started=5.0)),
        answer("decode-2", None, None),
    )


def test_the_text_reads_as_it_should() -> None:
    """`PDWATCH_UPDATE_GOLDEN=1 pytest` writes the text anew; read the difference before it is kept."""
    text = as_text(report())
    if os.environ.get("PDWATCH_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_json_holds_the_findings_and_the_numbers_behind_them() -> None:
    told = json.loads(json.dumps(as_json(report()), allow_nan=False))
    assert (told["type"], told["deployment"], told["exit_code"]) == ("check", "test", 2)
    assert {"code": "unreachable", "level": "error", "where": ["decode-2"]}.items() <= told["findings"][0].items()
    target = told["pools"]["decode"]["targets"]["decode-1"]
    assert (target["engines"], target["models"], target["kv_capacity_tokens"]) == (
        ["0", "1"],
        ["demo"],
        {"0": 600_000, "1": 600_000},
    )
    assert told["pools"]["decode"]["requests_per_s"] == pytest.approx(4.0)
    share = told["objectives"][1]
    assert share["edges"] == [0.01, 0.025]
    assert share["requests_in_window"] == pytest.approx(1200)
    assert share["precision"]["per_scrape"] == pytest.approx(4.0 / 3 * 5)


def test_errors_come_first_and_decide_the_exit_code() -> None:
    note, weak, wrong = (
        Finding("nobody_paged", "info", (), "a"),
        Finding("slow_page", "warning", (), "b"),
        Finding("unreachable", "error", (), "c"),
    )
    assert gathered([note, weak, wrong]) == [wrong, weak, note]
    assert [exit_code(found) for found in ([], [note], [note, weak], [weak, wrong])] == [0, 0, 1, 2]


def test_a_finding_of_an_unlisted_code_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="not a listed code"):
        Finding("nonsense", "info", (), "")


def test_every_listed_code_is_made_somewhere(repository: Path) -> None:
    made = {
        constant.value
        for path in [*(repository / "agent" / "check").glob("*.py"), repository / "agent" / "commands" / "check.py"]
        if path.name != "findings.py"
        for constant in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(constant, ast.Constant) and constant.value in CODES
    }
    assert made == set(CODES)


def test_the_documentation_explains_every_code_and_no_other(repository: Path) -> None:
    text = (repository / "docs" / "check.md").read_text(encoding="utf-8")
    explained = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert explained == list(CODES)
