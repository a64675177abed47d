"""Percentiles on a real recording. In: a recording and its truth. Out: each estimate beside the linear rule.

    python -m bench.recordings_bench ../shared/recordings/real-fleet

The folder holds `pages.jsonl.gz` and `truth.json` (phases with the exact quantiles of their requests' spans).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from agent.config import config_from_names
from agent.indicators.distribution import quantiles
from agent.model import ClockStepObservation
from agent.sources.recordings import read_recording
from agent.watch import Watch

FAMILIES = (("decode", "tpot"), ("decode", "ttft"), ("prefill", "ttft"))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/recordings/real-fleet")
    if not folder.is_dir():
        print(f"no recording at {folder}")
        return
    observations = [o for o in read_recording([folder / "pages.jsonl.gz"]) if not isinstance(o, ClockStepObservation)]
    names = sorted({observation.target for observation in observations})
    ours: list[float] = []
    linear: list[float] = []
    held = wanted = 0
    print(f"{'phase':6} {'pool':8}{'':5} q      true      ours [low, high]            error   linear rule  error")
    for phase, truth in json.loads((folder / "truth.json").read_text()).items():
        watch = Watch(config_from_names(names), retain_seconds=truth["to"] - truth["from"] + 600)
        for observation in observations:
            if observation.t <= truth["to"]:
                watch.observe(observation)
        state = watch.state(truth["to"], since=truth["from"])
        facts = {pool.name: pool for pool in watch.facts.pools(truth["from"], truth["to"])}
        for pool, family in FAMILIES:
            histogram = facts[pool].total.histograms[family]
            straight = quantiles(histogram.edges, histogram.counts)
            for q, true in truth[pool][family]["quantiles"].items():
                found, other = state.pools[pool].latency[family].quantiles[q], straight[q]
                if found is None or other is None or truth["requests"] < 20:
                    continue
                below, _, above = truth[pool][family]["neighbours"][q]
                wanted += 1
                held += found.low <= above * (1 + 1e-9) and (found.high is None or found.high >= below * (1 - 1e-9))
                ours.append(abs(found.value - true) / true)
                linear.append(abs(other.value - true) / true)
                high = "-" if found.high is None else f"{found.high:.4g}"
                bounds = f"[{found.low:.4g}, {high}]"
                print(
                    f"{phase:6} {pool:8}{family:5} {q:5} {true:9.4g} {found.value:9.4g} {bounds:20}"
                    f"{100 * ours[-1]:6.1f} %  {other.value:9.4g}  {100 * linear[-1]:6.1f} %"
                )
    print(
        f"median error: ours {100 * median(ours):.1f} %, the linear rule {100 * median(linear):.1f} %; "
        f"largest {100 * max(ours):.0f} % and {100 * max(linear):.0f} %; bounds held {held} of {wanted}"
    )


if __name__ == "__main__":
    main()
