"""HTML and SVG from parts. In: tag names, attributes, texts. Out: markup in which no text can become a tag.

Everything that is not `Markup` is text and is escaped, so that a part that forgets about escaping is harmless. Names
come from foreign pages and command lines: control characters, lone surrogates and direction marks are replaced, and
what is longer than a person reads is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

MOST_CHARACTERS = 600

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "link", "br"})


class Markup(str):
    """Text that is HTML already. Made by `el` and `join` alone."""

    __slots__ = ()


Child = Markup | str | None
Attribute = str | float | bool | None


def text(value: str, most_characters: int = MOST_CHARACTERS) -> Markup:
    """A foreign text as it may stand in an element or in a quoted attribute."""
    seen = _UNSEEN.sub(lambda found: " " if found[0] in "\t\n\r" else "\ufffd", value[: most_characters + 1])
    if len(value) > most_characters:
        seen = f"{seen[: most_characters - 1]}…"
    return Markup(escape(seen))


def join(*children: Child) -> Markup:
    """Parts one after another; None is left out."""
    return Markup("".join(each if isinstance(each, Markup) else text(each) for each in children if each is not None))


def joined(children: Iterable[Child]) -> Markup:
    """The same of a series."""
    return join(*children)


def el(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element. Attributes: `class_` is class, `data_at` is data-at; None and False are left out, True stands alone.

    Numbers are written with at most two decimals: they are places in a picture.
    """
    written = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        if value is True:
            written.append(name)
        elif isinstance(value, str):
            written.append(f'{name}="{value if isinstance(value, Markup) else text(value, 2000)}"')
        else:
            written.append(f'{name}="{number(value)}"')
    if tag in _VOID:
        return Markup(f"<{' '.join(written)}>")
    return Markup(f"<{' '.join(written)}>{join(*children)}</{tag}>")


def number(value: float) -> str:
    """A coordinate: 12.5, 3, 0.07."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def link(address: str, *children: Child, **attributes: Attribute) -> Markup:
    """A link; only its text where the address could run something or leads nowhere a browser should go."""
    scheme = address.partition(":")[0].lower() if ":" in address.partition("/")[0] else ""
    if scheme not in ("", "http", "https") or address.startswith("//"):
        return el("span", *children)
    return el("a", *children, href=address, **attributes)


def table(
    caption: Child, head: Iterable[Child], rows: Iterable[Iterable[Child]], *, text_columns: int = 1, class_: str = ""
) -> Markup:
    """A table that scrolls by itself where it is too wide. The first column names the row, the first `text_columns` are
    text, the others numbers. It can be reached by keyboard, so that it can be scrolled.
    """

    def kind(column: int) -> str | None:
        return None if column < text_columns else "n"

    top = el("tr", *(el("th", cell, scope="col", class_=kind(column)) for column, cell in enumerate(head)))
    body = joined(
        el(
            "tr",
            *(
                el("td", cell, class_=kind(column)) if column else el("th", cell, scope="row")
                for column, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    whole = el("table", el("caption", caption), el("thead", top), el("tbody", body), class_=class_ or None)
    label = caption if isinstance(caption, str) else "table"
    return el("div", whole, class_="wide", tabindex="0", role="region", aria_label=re.sub("<[^>]*>", "", label))
