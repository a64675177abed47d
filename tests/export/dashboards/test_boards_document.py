"""docs/boards.md speaks of boards, panels, causes and pictures that exist."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from agent.verdicts import causes
from agent.verdicts.alert_rules import ALERT_RULES
from tests.export.dashboards.made import boards, panels

CODES_OF_CAUSES = set(re.findall(r'"([a-z]+(?:_[a-z]+)*)"', Path(causes.__file__).read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def document(repository: Path) -> str:
    return (repository / "docs" / "boards.md").read_text(encoding="utf-8")


def test_every_board_of_pdwatch_has_its_section_and_its_picture(document: str) -> None:
    for word, board in boards().items():
        if not word.startswith("vllm-"):
            assert f"\n## {board['title'].removeprefix('pdwatch / ')}\n" in document, word
            assert f"(images/board-{word}.svg)" in document, word


def test_pictures_are_there_and_small_and_of_panels_that_exist(document: str, repository: Path) -> None:
    for word in re.findall(r"\(images/board-([a-z-]+)\.svg\)", document):
        path = repository / "docs" / "images" / f"board-{word}.svg"
        assert path.stat().st_size < 300_000, word
        told = str(ET.parse(path).getroot().get("aria-label"))
        named = told.partition(": ")[2]
        for title in sorted((panel["title"] for panel in panels(boards()[word])), key=len, reverse=True):
            named = named.replace(title, "")
        assert not named.strip(" ,;"), f"{word}: python -m docs.board_pictures"


def test_panels_named_in_bold_are_on_the_board_of_their_section(document: str) -> None:
    for section in document.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        board = next((one for one in boards().values() if one["title"] == f"pdwatch / {heading}"), None)
        if board is None:
            continue
        titles = {re.sub(r", \$\w+$", "", panel["title"]) for panel in board["panels"]}
        named = set(re.findall(r"\*\*([^*]+?)\.?\*\*", section))
        assert named <= titles | {title.rstrip("?") for title in titles}, heading


def test_codes_that_lead_to_a_board_are_those_of_problems_and_causes(document: str) -> None:
    rows = document.partition("| the cause or problem says")[2].partition("\n\n")[0]
    codes = set(re.findall(r"`([a-z_]+)`", rows))
    assert len(codes) > 20
    assert codes <= set(ALERT_RULES) | CODES_OF_CAUSES
