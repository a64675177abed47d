"""The reference of all metrics as a document. In: the catalogue. Out: the text of `docs/metrics.md`.

python -m agent.export.metrics_docs > docs/metrics.md
"""

from __future__ import annotations

import sys
from itertools import groupby

from agent.catalogue import CATALOGUE, Metric

_HEAD = """# Metrics

Everything at `/metrics`, made from `agent/catalogue/` by `python -m agent.export.metrics_docs`; do not edit it here.

- Values are in base units. A value that is not known has no series: it is never 0 and never NaN.
- Values over the window look back over `pdwatch_window_seconds`. They are right for one pdwatch and cannot be added up;
  counters and histograms can, over any number of them.
- A percentile has a best value between `low` and `high`, which hold whatever the distribution inside a bucket was.
- A histogram has no `_sum` once observations were counted whose sum cannot be trusted (failed requests leave the host's
  uptime in vLLM's queue times): a wrong mean would be worse than none. The mean over the window is exact all the same.
- With `deployment` configured, every series has it as a label. Labels that do not apply are left out.
"""

_TABLE_HEAD = "| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n"


def metrics_document() -> str:
    """The whole document, one table for each group of the catalogue."""
    parts = [_HEAD]
    for group, metrics in groupby(CATALOGUE.values(), key=lambda metric: metric.group):
        parts.append(f"\n## {group[0].upper()}{group[1:]}\n\n{_TABLE_HEAD}")
        parts.extend(_row(metric) for metric in metrics)
    return "".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |\n".replace("  ", " ")


if __name__ == "__main__":
    sys.stdout.write(metrics_document())
