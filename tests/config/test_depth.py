"""Configurations that are nested far too deep are refused before they cost anything."""

from __future__ import annotations

import time

import pytest

from agent.config.document import MAX_DEPTH, read_document
from agent.errors import ConfigError

DEEP = {
    "flow": "x: " + "[" * 50_000,
    "closed flow": "x: " + "[" * 3000 + "]" * 3000,
    "mappings": "x: " + "{a: " * 3000 + "}" * 3000,
    "blocks": "\n".join(" " * depth + "a:" for depth in range(1000)),
    "sequences": "- " * 3000 + "x",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deep_is_refused_at_once(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(ConfigError, match=rf"c\.yaml:\d+: not valid YAML: nested deeper than {MAX_DEPTH} levels"):
        read_document(text, "c.yaml", {})
    assert time.process_time() - begin < 2.0


def test_what_is_nested_a_little_too_deep_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigError, match=rf"x(\[0\])+: nested deeper than {MAX_DEPTH} levels"):
        read_document("x: " + "[" * 40 + "]" * 40, "c.yaml", {})
