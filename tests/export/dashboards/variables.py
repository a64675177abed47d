"""Grafana's variables put in by hand. In: an expression of a board, values. Out: PromQL that Prometheus reads."""

import re
from collections.abc import Mapping

VALUES: Mapping[str, str] = {
    "__rate_interval": "1m",
    "__range": "13m",
    "deployment": ".*",
    "pool": ".+",
    "prefill": "(prefill)",
    "decode": "(decode)",
    "target": ".+",
    "process": ".+",
    "percentile": "p95",
    "ahead": "1",
    "allowed": "0.01",
}
"""As Grafana fills them in with All chosen. A recording of thirteen minutes has no six hours to look ahead."""

_VARIABLE = re.compile(r"\$(?:\{([a-z_]\w*)\}|([a-z_]\w*))")


def filled(expr: str, values: Mapping[str, str] = VALUES) -> str:
    """The expression with its variables; KeyError for one that no board may use."""
    return _VARIABLE.sub(lambda match: values[match[1] or match[2]], expr)
