"""What one kind of page can say. In: a kind of page. Out: its table of names, how to know it, and how to refuse others.

The reader is the same for every page; this is all that differs between a vLLM server's, a router's and an exporter's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from agent.errors import NotVllm, PageError
from agent.reading.names import SampleName, family_names, sample_names, spellings
from agent.reading.other import what_else
from agent.reading.scan import Scan, refuse_routers


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`samples`, `families`: by name, as `names.sample_names` gives them. `marks`: what its names begin with.

    `refusal` makes the error for another page out of its text; `check` may refuse a page that was taken apart.
    """

    samples: Mapping[str, SampleName]
    families: Mapping[str, SampleName]
    marks: tuple[str, ...]
    refusal: Callable[[str], PageError]
    check: Callable[[Scan], None]

    def is_on(self, text: str) -> bool:
        """Whether a page may be of this kind at all: a quick look."""
        return any(mark in text for mark in self.marks)


@lru_cache(maxsize=16)
def vllm(prefix: str = "") -> Vocabulary:
    """What a vLLM server's page says; a router's page is refused, even one that borrows vLLM's names."""
    return Vocabulary(sample_names(prefix), family_names(prefix), spellings(prefix), _not_vllm, refuse_routers)


def _not_vllm(text: str) -> PageError:
    return NotVllm(what_else(text))
