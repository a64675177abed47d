"""The table of the library as docs/incidents.md shows it. In: the incidents as played. Out: lines of Markdown.

python -m tests.incidents.document          # writes the table into docs/incidents.md
"""

from __future__ import annotations

from pathlib import Path

from tests.incidents.library import CASES, Played, played

DOCUMENT = Path(__file__).parents[2] / "docs" / "incidents.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEAD = (
    "| incident | pages expected | pages sent | tickets expected | tickets sent | first after | named |",
    "|---|---|---|---|---|---|---|",
)


def row(seen: Played) -> str:
    """One line of the table."""
    seconds = seen.seconds_to_first
    cells = (
        seen.case.title,
        _listed(seen.case.pages),
        _listed(seen.pages),
        _listed(seen.case.tickets),
        _listed(seen.tickets),
        f"{seconds:.0f} s" if seconds is not None else "-",
        _cause(seen),
    )
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """All lines, each incident played."""
    return "\n".join([*HEAD, *(row(played(case.title)) for case in CASES)])


def documented() -> str:
    """The table that the document has now."""
    return DOCUMENT.read_text("utf-8").split(BEGIN)[1].split(END)[0].strip()


def _listed(abouts: tuple[str, ...]) -> str:
    return ", ".join(abouts) or "none"


def _cause(seen: Played) -> str:
    """The cause of a broken promise, or what the problem says."""
    if seen.first is None:
        return "-"
    texts = seen.first.alert.annotations
    said = texts["cause"] if "objective" in seen.first.alert.labels else texts["description"]
    return said.split(";")[0].strip().removesuffix(".")


def main() -> None:
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
