"""A quiet week with rollouts. In: days, seconds between scrapes. Out: what was sent, which should be nothing.

    python -m bench.quiet_week [DAYS [INTERVAL_SECONDS]]          # 0.45 days end after the first restarts

The fleet of `tests/incidents/quiet.py`: nights, days, and every morning a restart of every server, one by one.
"""

from __future__ import annotations

import sys
import time

from tests.incidents.quiet import INTERVAL_SECONDS, quiet


def main(days: float = 7, interval_seconds: float = INTERVAL_SECONDS) -> None:
    began = time.process_time()
    seen = quiet(days, interval_seconds=interval_seconds)
    pages = sum(sent.is_page for sent in seen.sent)
    print(
        f"{seen.days:g} days, {seen.requests} requests, {seen.restarts} restarts, "
        f"scraped every {interval_seconds:.0f} s: "
        f"{pages} pages, {len(seen.sent) - pages} tickets ({time.process_time() - began:.0f} s of CPU)"
    )
    for sent in seen.sent:
        print(f"  {sent.alert.severity} {sent.about} at {sent.at:.0f}: {sent.alert.annotations['description']}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(float(arguments[0]) if arguments else 7, float(arguments[1]) if len(arguments) > 1 else INTERVAL_SECONDS)
