"""Numbers for a report. In: counts and shares. Out: text that a person reads at a glance."""

from __future__ import annotations


def amount(count: float) -> str:
    """A count or rate: 1200, 36, 6, 0.02."""
    return f"{count:.0f}" if count >= 100 else f"{count:.2g}"


def share(ratio: float) -> str:
    """A share in percent; one that is above 0 never reads 0%."""
    return "under 1%" if 0 < ratio < 0.01 else f"{ratio:.0%}"
