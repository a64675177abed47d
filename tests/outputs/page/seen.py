"""A page as a browser finds it. In: HTML. Out: tags, attributes, texts, pictures; and what must hold for every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

VOID = {"meta", "link", "br"}


class Seen(HTMLParser):
    """What a browser finds: tags in order, every attribute, the texts; `wrong` says what does not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.wrong += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(f" {each} " for each in self.words).split())


def pictures(page: str) -> Iterator[ET.Element]:
    """Every outermost SVG, read as XML; a page whose pictures are none raises."""
    depth, begin = 0, 0
    for found in re.finditer(r"<svg[ >]|</svg>", page):
        if found[0] != "</svg>":
            begin = found.start() if depth == 0 else begin
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                yield ET.fromstring(page[begin : found.end()])


def sound(page: str) -> Seen:
    """Checks what holds for every page whatever it shows."""
    seen = Seen(page)
    assert seen.wrong == []
    ids = [value for _, name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for tag, name, value in seen.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style", tag
        if name in ("href", "src") and tag != "a":
            assert re.fullmatch(r"static/[\w.-]+\?v=[0-9a-f]{12}", value), value
        if name == "href" and value.startswith("#"):
            assert value[1:] in ids
    assert seen.tags.count("script") == 1
    assert seen.tags.count("main") == seen.tags.count("h1") == 1
    for picture in pictures(page):
        if picture.get("aria-hidden") == "true":
            continue
        assert picture.get("role") == "img"
        assert [child.tag for child in picture][:2] == ["title", "desc"]
        assert picture[0].text
        for part in picture.iter():
            for name, value in part.attrib.items():
                assert "nan" not in value, (name, value)
                assert not re.search(r"\binf", value), (name, value)
    assert not re.search(r"\b(None|nan|inf|NaN)\b", seen.text.replace("None known", "").replace("None fires", ""))
    return seen
