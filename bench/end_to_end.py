"""The whole way from a server's page to a pager, once in full. In: seconds that an Alertmanager is down. Out: a table.

    python -m bench.end_to_end [DOWN_SECONDS]          # 120 by default; takes about ten minutes

The play of `tests/e2e`, waiting for every end. Needs Debian's packages prometheus and prometheus-alertmanager.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.e2e.play import Played, play
from tests.e2e.stage import DIRECT, LATE, PDWATCH, VLLM, set_up

ROWS = (
    # way, deployment, what happens, began, over, how
    (DIRECT, "one", "mean TPOT breached", "slow", "healthy", "pdwatch -> Alertmanager"),
    (VLLM, "one", "mean TPOT breached", "slow", "healthy", "rules on vLLM -> Alertmanager"),
    (PDWATCH, "one", "mean TPOT breached", "slow", "healthy", "rules on pdwatch -> Alertmanager"),
    (DIRECT, "two", "engine frozen", "frozen", "thawed", "pdwatch -> Alertmanager"),
    (VLLM, "two", "engine frozen", "frozen", "thawed", "rules on vLLM -> Alertmanager"),
    (PDWATCH, "two", "engine frozen", "frozen", "thawed", "rules on pdwatch -> Alertmanager"),
    (DIRECT, "killed", "mean TPOT breached, pdwatch killed", "slow", "healthy", "pdwatch -> Alertmanager"),
    ("webhook", "killed", "mean TPOT breached, pdwatch killed", "slow", "healthy", "pdwatch -> webhook"),
    (LATE, "one", "Alertmanager down, then back", "back for firing", "back for resolved", "pdwatch -> Alertmanager"),
)


def main(down_seconds: float = 120.0) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, set_up(Path(folder)) as stage:
        played = play(stage, down_seconds=down_seconds, whole=True)
    print(f"{time.monotonic() - began:.0f} s in all; an Alertmanager was down for {down_seconds:g} s twice\n")
    print("| what happens | way | pages | additions | ends | page after | end after |")
    print("|---|---|---|---|---|---|---|")
    for way, deployment, what, since, over, how in ROWS:
        told = [notice.status for notice in played.calls.of(way, deployment)]
        # The pager knows a group of alerts as one incident: what comes while it is open is added to it.
        added = sum(pair == ("firing", "firing") for pair in pairwise(told))
        counts = f"{told.count('firing') - added} | {added} | {told.count('resolved')}"
        page, end = (_after(played, way, deployment, *of) for of in (("firing", since), ("resolved", over)))
        print(f"| {what} | {how} | {counts} | {page} | {end} |")
    print()
    for deployment in ("one", "two"):
        seen = {way: played.calls.identities(way, deployment) for way in (DIRECT, VLLM, PDWATCH)}
        print(f"labels of {deployment}:")
        for labels in sorted(set().union(*seen.values()), key=sorted):
            by = ", ".join(way for way, found in seen.items() if labels in found)
            print(f"  {by}: " + " ".join(f"{name}={value}" for name, value in sorted(labels)))
    kept = "kept firing" if played.two_kept_firing else "did NOT keep firing"
    print(f"two {kept} by every way while one was resolved")


def _after(played: Played, way: str, deployment: str, status: str, moment: str) -> str:
    told = [notice.at for notice in played.calls.of(way, deployment) if notice.status == status]
    return f"{told[0] - played.moments[moment]:.0f} s" if told else "-"


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
