"""All benchmarks of speed and cost, one after another: python -m bench. Figures only; nothing here passes or fails."""

from __future__ import annotations

from bench import reader_bench, round_bench


def main() -> None:
    for bench in (reader_bench, round_bench):
        print(f"== {bench.__name__}")
        bench.main()


if __name__ == "__main__":
    main()
