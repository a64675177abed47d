"""256 engines whose bucket edges change. In: nothing. Out: CPU per page, problems and memory, steady and changing.

    python -m bench.edges_bench

A deployment that is rolled out with other histogram buckets, or a page that mixes servers, gives new edges page after
page. What is known of the engines must stay bounded, and each change be named, not added up wrongly.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from statistics import median

from agent.config import config_from_names
from agent.model import PageObservation
from agent.watch import Watch

ENGINES, PAGES, LAYOUTS = 256, 60, 12
EDGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def page(n: int, edges: tuple[float, ...]) -> str:
    """Every engine after `n` requests of half a second."""
    lines = ["# TYPE vllm:time_to_first_token_seconds histogram"]
    name = "vllm:time_to_first_token_seconds"
    for engine in range(ENGINES):
        labels = f'{{engine="{engine}",model_name="m"'
        lines += [f'{name}_bucket{labels},le="{edge}"}} {n if edge >= 0.5 else 0}.0' for edge in edges]
        lines += [f'{name}_bucket{labels},le="+Inf"}} {n}.0', f"{name}_sum{labels}}} {0.5 * n}"]
        lines.append(f"{name}_count{labels}}} {n}.0")
    lines.append("# TYPE vllm:generation_tokens_total counter")
    lines += [
        f'vllm:generation_tokens_total{{engine="{engine}",model_name="m"}} {9.0 * n}' for engine in range(ENGINES)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    # Layouts differ by the number of edges and by one edge that each has to itself.
    layouts = [(*EDGES, *(20.0 + extra for extra in range(number)), 100.0 + number) for number in range(LAYOUTS)]
    for name, every in (("one layout", PAGES), ("new edges every 10 pages", 10), ("new edges on every page", 1)):
        watch = Watch(config_from_names(["decode-0"]))
        pages = [page(n, layouts[n // every % LAYOUTS]) for n in range(PAGES)]
        spent, judged = [], []
        gc.collect()
        tracemalloc.start()
        for n, text in enumerate(pages):
            begin = time.process_time()
            watch.observe(PageObservation(1e9 + 5.0 * n, "decode-0", text))
            spent.append(time.process_time() - begin)
            if n % 10 == 9:
                begin = time.process_time()
                watch.evaluate(1e9 + 5.0 * n)
                judged.append(time.process_time() - begin)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        state = watch.state(1e9 + 5.0 * (PAGES - 1))
        codes = sorted({problem.code for problem in state.problems})
        (pool,) = state.pools.values()
        print(f"{name}: {ENGINES} engines, {median(spent) * 1e3:.0f} ms per page (memory traced), ", end="")
        print(f"{median(judged) * 1e3:.0f} ms per evaluation, {held / 1e6:.1f} MB held")
        print(f"  TTFT {pool.latency['ttft'].count} of {ENGINES * (PAGES - 1)} requests, problems: {', '.join(codes)}")


if __name__ == "__main__":
    main()
