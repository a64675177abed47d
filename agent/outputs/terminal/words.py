"""Short texts for a terminal. In: numbers and foreign text. Out: text that fits, in characters that it can show.

Foreign text loses whatever is not a visible character: control characters move the cursor or retitle the window, and
direction marks reorder a line.
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agent.outputs import numbers
from agent.verdicts.wording import duration

UNKNOWN = "-"
MOST_CHARACTERS = 2000
ELLIPSIS = "…"
_PLAIN = str.maketrans(
    {
        "–": "-",
        "—": "-",
        "µ": "u",
        "μ": "u",
        "…": "~",
        "▼": "v",
        "▲": "^",
        "×": "x",
        "≤": "<",
        "≥": ">",
        "·": "|",
        "↑": "^",
        "↓": "v",
    }
)
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def clean(text: str) -> str:
    """Every blank as one space, everything invisible as a replacement character; long text is cut."""
    text = text[:MOST_CHARACTERS]
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    # A combining mark joins the character before it: a pile of them would leave its line.
    return "\N{REPLACEMENT CHARACTER}" if category in _INVISIBLE or category in ("Mn", "Me") else character


def clip(text: str, cells: int) -> str:
    """At most so many cells wide; what is cut off is marked."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ELLIPSIS if cells > 0 else ""


def encodable(line: Text, encoding: str) -> Text:
    """The same line in characters of this encoding, one for one, so that its styles stay in place."""
    try:
        line.plain.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        plain = line.plain.translate(_PLAIN)
        copy = line.copy()
        copy.plain = plain.encode("ascii", "replace").decode("ascii")
        return copy
    return line


def seconds(value: float | None) -> str:
    """A time: 17.3 ms, 2.41 s."""
    return UNKNOWN if value is None else numbers.seconds(value)


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return UNKNOWN if value is None else numbers.count(value).replace("\u202f", " ")


def digits(value: float | None, form: str = ".3g") -> str:
    """A number without a unit; a large one with its thousands apart."""
    if value is None:
        return UNKNOWN
    return count(value) if abs(value) >= 1000 else f"{value:{form}}"


def share(value: float | None) -> str:
    """A ratio 0..1 in whole percent."""
    return UNKNOWN if value is None else f"{100 * value:.0f}%"


def size(value: float | None) -> str:
    """Bytes in powers of 1024."""
    return UNKNOWN if value is None else numbers.size(value)


def age(value: float | None) -> str:
    """A length of time: 45 s, 12 min."""
    return UNKNOWN if value is None else duration(value)


def between(low: str, high: str | None, joint: str = "–") -> str:
    """Two ends with their unit once where it is the same; without an upper end: more than the lower."""
    if high is None:
        return f"> {low}"
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') and unit else low}{joint}{high}"
