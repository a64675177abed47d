"""pdwatch's own metrics as the rules name them. In: a short name. Out: the exported name.

A name that the catalogue lacks is an error at once: a rule on it would be silent for ever.
"""

from __future__ import annotations

from agent.catalogue import CATALOGUE, PREFIX


def own_metric(name: str) -> str:
    """`problem` is `pdwatch_problem`. Raises KeyError for a name that nobody exports."""
    return CATALOGUE[PREFIX + name].name
