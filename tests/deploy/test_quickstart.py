"""The quick starts: what they tell a reader to write can be used, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.config import load_config
from agent.export.kubernetes.files import kubernetes_files

PAGES = ("README", "bare-metal", "slurm", "kubernetes", "dynamo", "llm-d")
_PATH = re.compile(r"\b(?:deploy|examples|docs|dashboards|alerts|tests)/[\w./-]*\w")


def blocks(text: str) -> list[str]:
    """YAML that stands in a page as a whole configuration."""
    return [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("deployment:")]


def pages(repository: Path) -> list[Path]:
    folder = repository / "docs"
    return [
        *(folder / "quickstart" / f"{page}.md" for page in PAGES),
        folder / "compose.md",
        folder / "sidecar-cost.md",
    ]


@pytest.mark.parametrize("page", ["kubernetes", "llm-d"])
def test_a_configuration_in_a_page_can_be_exported(page: str, repository: Path, tmp_path: Path) -> None:
    (block,) = blocks((repository / "docs" / "quickstart" / f"{page}.md").read_text(encoding="utf-8"))
    file = tmp_path / "pdwatch.yaml"
    file.write_text(block, encoding="utf-8")
    files = kubernetes_files(load_config(file, {}))
    assert {"components/sidecar/prefill.yaml", "components/sidecar/decode.yaml"} <= set(files)


def test_every_file_that_a_page_names_is_there(repository: Path) -> None:
    missing = [
        f"{page.name}: {name}"
        for page in pages(repository)
        for name in _PATH.findall(page.read_text(encoding="utf-8"))
        if not (repository / name).exists()
    ]
    assert missing == []


def test_every_link_leads_somewhere(repository: Path) -> None:
    broken = [
        f"{page.name}: {link}"
        for page in pages(repository)
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []
