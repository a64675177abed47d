"""Whole outputs kept as files. In: a file's name and the text made now. Out: equal, or a difference to read.

PDWATCH_UPDATE_GOLDEN=1 python -m pytest     # writes them anew; read the difference before it is kept
"""

import os
from pathlib import Path

# Asked for while tests are collected: `PDWATCH_...` variables are taken away before the first one runs.
UPDATE = bool(os.environ.get("PDWATCH_UPDATE_GOLDEN"))

HERE = Path(__file__).parent


def assert_golden(path: Path, text: str) -> None:
    """`path`: absolute, or below this folder."""
    path = HERE / path
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is missing: PDWATCH_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: PDWATCH_UPDATE_GOLDEN=1 writes it anew"
