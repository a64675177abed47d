"""Numbers for people. In: values in base units, None for unknown. Out: short texts with their unit.

The page and the terminal say the same number the same way; unknown is a dash, never a 0.
"""

from __future__ import annotations

from agent.state import Distribution, Quantile

UNKNOWN = "–"


def seconds(value: float | None) -> str:
    """Three digits and the unit that keeps them readable: 17.3 ms, 2.41 s, 3.2 min."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1e-3:
        return f"{value * 1e6:.3g} µs" if value else "0 s"
    if abs(value) < 0.9995:
        return f"{value * 1e3:.3g} ms"
    if abs(value) < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", "\u202f")


def per_second(value: float | None, of: str = "") -> str:
    """A rate with up to three digits."""
    if value is None:
        return UNKNOWN
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", "\u202f")
    return f"{number} {of}/s".replace("  ", " ")


def share(value: float | None) -> str:
    """A ratio 0..1 in percent."""
    return UNKNOWN if value is None else f"{100 * value:.3g} %"


def size(value: float | None) -> str:
    """Bytes in powers of 1024."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def quantile(found: Quantile | None) -> str:
    """The value with its bounds; what no bucket bounds from above is shown as more than the lower one."""
    if found is None:
        return UNKNOWN
    if found.high is None:
        return f"> {seconds(found.low)}"
    if found.value is None:
        return f"{seconds(found.low)} to {seconds(found.high)}"
    return f"{seconds(found.value)} ({seconds(found.low)} to {seconds(found.high)})"


def why_unknown(found: Distribution) -> str:
    """The word for a distribution without a mean, "" with one."""
    if found.mean is not None:
        return ""
    return {"no_data": "no data", "not_applicable": "does not apply", "metric_missing": "not on the page"}.get(
        found.status, "not plausible" if found.implausible else "unknown"
    )
