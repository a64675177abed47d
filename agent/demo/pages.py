"""Metrics pages as vLLM 0.32's Python frontend renders them. In: a server's engines. Out: the text of its page.

Two modes. Single-process: process and interpreter families first, a `_created` gauge behind every counter and
histogram, buckets before count and sum. Multiprocess (several API servers): no such families, `_sum` before the
buckets, gauges at the end and without a sample before their engine's first step. A page is kept in pieces, and only
pieces whose numbers changed are written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from agent.demo import families, host_memory
from agent.demo.families import Buckets, Values
from agent.demo.metrics import EngineMetrics, Histogram
from agent.demo.server import Server

HANDLER = "/v1/chat/completions"
CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


def number(value: float) -> str:
    """A number as the Python client library writes it: whole numbers end in .0, from a million on with an exponent."""
    text = repr(float(value))
    point = text.find(".")
    if value <= 0 or point <= 6:
        return text
    digits = (text[0] + "." + text[1:point] + text[point + 1 :]).rstrip("0").rstrip(".")
    return f"{digits}e+0{point - 1}"


def labels(given: Mapping[str, str]) -> str:
    """Labels in braces, sorted by name; nothing without labels."""
    return "{" + ",".join(f'{name}="{given[name]}"' for name in sorted(given)) + "}" if given else ""


Piece = Callable[[], str]
"""Writes one piece of the page, as it is now."""


class PageWriter:
    """Writes the pages of one life of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._multiprocess = server.pool.multiprocess
        self._created = number(round(server.started, 6))
        self._now = server.started
        self._texts: list[str] = []
        """The page in pieces, as they were written last."""
        self._pieces: list[tuple[int, Piece]] = []
        """Pieces that are written for every page, and where they go."""
        self._counted: list[tuple[int, Histogram, Piece]] = []
        """Pieces that are written when their histogram has changed."""
        if self._multiprocess:
            self._lay_out_multiprocess()
        else:
            self._lay_out_single()

    def text(self, t: float) -> str:
        """The page at `t`; the engines' metrics must have been settled."""
        self._now = t
        texts = self._texts
        for place, histogram, write in self._counted:
            if histogram.changed:
                histogram.changed = False
                texts[place] = write()
        for place, write in self._pieces:
            texts[place] = write()
        return "".join(texts)

    def _add(self, piece: Piece) -> None:
        self._pieces.append((len(self._texts), piece))
        self._texts.append("")

    # -- order of the families --------------------------------------------------------------------------------------

    def _lay_out_single(self) -> None:
        speculation = families.speculation(self._server.pool.drafting.depth)
        self._process()
        self._counters(speculation)
        self._histograms(families.NIXL_HISTOGRAMS)
        self._counters((*families.NIXL_COUNTERS, *families.ESTIMATES))
        self._gauges()
        self._counters(families.COUNTERS)
        self._rejections()
        self._histograms(families.HISTOGRAMS)
        self._cache_config()
        self._add(self._http_requests)
        self._add(self._http_sizes)
        self._http_durations()

    def _lay_out_multiprocess(self) -> None:
        speculation = families.speculation(self._server.pool.drafting.depth)
        self._add(self._http_sizes)
        self._counters((*speculation, *families.NIXL_COUNTERS, *families.ESTIMATES, *families.COUNTERS))
        self._rejections()
        self._add(self._http_requests)
        self._histograms((*families.NIXL_HISTOGRAMS, *families.HISTOGRAMS))
        self._http_durations()
        self._gauges()
        self._cache_config()

    # -- engines ----------------------------------------------------------------------------------------------------

    def _engine_labels(self, rank: int, **own: str) -> dict[str, str]:
        return {"engine": str(rank), "model_name": self._server.topology.model, **own}

    def _children(self, family: Values) -> list[tuple[int, str, str]]:
        """(rank, key, labels) of every child of a family, in page order."""
        ranks = range(len(self._server.engines))
        if not family.label:
            return [(rank, family.key, labels(self._engine_labels(rank))) for rank in ranks]
        children = [
            (rank, key, labels(self._engine_labels(rank, **{family.label: value})))
            for key, value in zip(family.keys, family.values, strict=True)
            for rank in ranks
        ]
        return sorted(children, key=lambda child: child[0]) if family.engine_first else children

    def _counters(self, group: Iterable[Values]) -> None:
        for family in group:
            children = self._children(family)
            metrics = [self._server.engines[rank].metrics.counters for rank, _, _ in children]
            self._texts.append(_heading(f"{family.name}_total", family.help, "counter"))
            lines = [f"{family.name}_total{text} " for _, _, text in children]
            self._add(_counted(lines, metrics, [key for _, key, _ in children]))
            self._created_gauge(family.name, family.help, [text for _, _, text in children])

    def _created_gauge(self, name: str, text: str, children: Sequence[str]) -> None:
        if not self._multiprocess:
            lines = "".join(f"{name}_created{child} {self._created}\n" for child in children)
            self._texts.append(_heading(f"{name}_created", text, "gauge") + lines)

    def _histograms(self, group: Iterable[Buckets]) -> None:
        for family in group:
            self._texts.append(_heading(family.name, family.help, "histogram"))
            children = []
            for rank, engine in enumerate(self._server.engines):
                own = self._engine_labels(rank)
                children.append(labels(own))
                histogram = engine.metrics.histograms[family.key]
                self._counted.append((len(self._texts), histogram, self._histogram(family.name, own, histogram)))
                self._texts.append("")
            self._created_gauge(family.name, family.help, children)

    def _histogram(self, name: str, own: Mapping[str, str], histogram: Histogram) -> Piece:
        bounds = [*(number(edge) for edge in histogram.edges), "+Inf"]
        buckets = "".join(f"{name}_bucket{labels({**own, 'le': bound})} %s\n" for bound in bounds)
        count, total = f"{name}_count{labels(own)} %s\n", f"{name}_sum{labels(own)} %s\n"
        multiprocess = self._multiprocess
        template = total + buckets + count if multiprocess else buckets + count + total
        # below a million every count is written alike, which formatting does without a call per number
        plain = template.replace("%s", "%d.0").replace(f"{total[:-4]} %d.0", f"{total[:-4]} %s")

        def write() -> str:
            counts: list[int] | list[str] = [*accumulate(histogram.counts)]
            form = plain
            if sum(histogram.counts) >= 1_000_000:
                form, counts = template, [number(n) for n in accumulate(histogram.counts)]
            whole = number(histogram.total)
            return form % ((whole, *counts, counts[-1]) if multiprocess else (*counts, counts[-1], whole))

        return write

    def _gauges(self) -> None:
        for family in families.GAUGES:
            if family.decode_only and self._server.role != "decode":
                continue
            children = self._children(family)
            engines = [self._server.engines[rank].metrics for rank, _, _ in children]
            lines = [f"{family.name}{text} " for _, _, text in children]
            hidden = self._multiprocess and family.set_by_step
            self._texts.append(_heading(family.name, family.help, "gauge"))
            self._add(_shown(lines, engines, [key for _, key, _ in children], hidden))

    def _rejections(self) -> None:
        name, text = "vllm:admission_rejections", "Requests refused by admission limits"
        model = self._server.topology.model
        children = [labels({"model_name": model, "reason": reason}) for reason in families.REJECTION_REASONS]
        lines = "".join(f"{name}_total{child} 0.0\n" for child in children)
        self._texts.append(_heading(f"{name}_total", text, "counter") + lines)
        self._created_gauge(name, text, children)

    def _cache_config(self) -> None:
        pool, topology = self._server.pool, self._server.topology
        blocks = pool.kv_tokens // topology.block_tokens
        shared = {
            **families.CACHE_CONFIG_LABELS,
            "block_size": str(topology.block_tokens),
            "effective_attention_block_size": str(topology.block_tokens),
            "kv_cache_max_concurrency": repr(pool.kv_tokens / topology.max_model_len),
            "kv_cache_memory_bytes": str(pool.kv_tokens * topology.transfer.bytes_per_token),
            "kv_cache_size_tokens": str(pool.kv_tokens),
            # of all engines together, repeated on each
            "num_gpu_blocks": str(blocks * pool.engines),
        }
        lines = [
            f"{families.CACHE_CONFIG}{labels({**shared, 'engine': str(rank)})} 1.0\n" for rank in range(pool.engines)
        ]
        self._texts.append(_heading(families.CACHE_CONFIG, "Settings of the cache", "gauge") + "".join(lines))

    # -- frontend ---------------------------------------------------------------------------------------------------

    def _http_requests(self) -> str:
        name, by_status = "http_requests", self._server.http.by_status
        if not by_status:
            return ""
        own = [(labels({"handler": HANDLER, "method": "POST", "status": s}), n) for s, n in sorted(by_status.items())]
        text = _heading(f"{name}_total", "Requests by method, status and handler", "counter")
        text += "".join(f"{name}_total{child} {number(count)}\n" for child, count in own)
        return text + self._created_now(name, [child for child, _ in own])

    def _http_sizes(self) -> str:
        http = self._server.http
        if not http.count:
            return ""
        text, own = "", labels({"handler": HANDLER})
        for what, total in (("request", http.request_bytes), ("response", http.response_bytes)):
            name = f"http_{what}_size_bytes"
            text += _heading(name, f"Content length of {what}s", "summary")
            text += f"{name}_count{own} {number(http.count)}\n{name}_sum{own} {number(total)}\n"
            text += self._created_now(name, [own])
        return text

    def _created_now(self, name: str, children: Sequence[str]) -> str:
        if self._multiprocess:
            return ""
        lines = "".join(f"{name}_created{child} {self._created}\n" for child in children)
        return _heading(f"{name}_created", "When the series began", "gauge") + lines

    def _http_durations(self) -> None:
        http, name = self._server.http, "http_request_duration_highr_seconds"
        head, write = (
            _heading(name, "Duration of requests, without labels", "histogram"),
            self._histogram(name, {}, http.fine),
        )
        self._add(lambda: head + write() + self._created_now(name, [""]))
        coarse, own = "http_request_duration_seconds", {"handler": HANDLER, "method": "POST"}
        coarse_head = _heading(coarse, "Duration of requests by handler", "histogram")
        coarse_write = self._histogram(coarse, own, http.coarse)
        self._add(lambda: coarse_head + coarse_write() + self._created_now(coarse, [labels(own)]) if http.count else "")

    def _process(self) -> None:
        generations = [labels({"generation": str(generation)}) for generation in range(3)]
        for name, values in (
            ("objects_collected", (15344, 3018, 579)),
            ("objects_uncollectable", (0, 0, 0)),
            ("collections", (1621, 147, 10)),
        ):
            lines = zip(generations, values, strict=True)
            self._texts.append(
                _heading(f"python_gc_{name}_total", f"Garbage collection: {name}", "counter")
                + "".join(f"python_gc_{name}_total{child} {number(value)}\n" for child, value in lines)
            )
        version = {"implementation": "CPython", "major": "3", "minor": "12", "patchlevel": "9", "version": "3.12.9"}
        self._texts.append(_heading("python_info", "Interpreter", "gauge") + f"python_info{labels(version)} 1.0\n")
        self._add(self._process_values)

    def _process_values(self) -> str:
        age = self._now - self._server.started
        resident = host_memory.frontend_rss_bytes(self._server, self._now)
        values: tuple[tuple[str, str, float], ...] = (
            ("process_virtual_memory_bytes", "gauge", resident + 3.1e10),
            ("process_resident_memory_bytes", "gauge", resident),
            ("process_start_time_seconds", "gauge", round(self._server.started, 2)),
            ("process_cpu_seconds_total", "counter", round(21.0 + 0.07 * age, 2)),
            ("process_open_fds", "gauge", 61 + len(self._server.engines)),
            ("process_max_fds", "gauge", 1048576),
        )
        return "".join(f"{_heading(name, 'Of the API server', kind)}{name} {number(v)}\n" for name, kind, v in values)


def _heading(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text}.\n# TYPE {name} {kind}\n"


def _counted(lines: Sequence[str], counters: Sequence[dict[str, float]], keys: Sequence[str]) -> Piece:
    """Lines of one counter family, each written anew when its number changed."""
    seen: list[float] = [-1.0] * len(lines)
    written = [""] * len(lines)
    children = list(enumerate(zip(counters, keys, strict=True)))

    def write() -> str:
        for index, (values, key) in children:
            value = values[key]
            if value != seen[index]:
                seen[index] = value
                written[index] = f"{lines[index]}{number(value)}\n"
        return "".join(written)

    return write


def _shown(lines: Sequence[str], engines: Sequence[EngineMetrics], keys: Sequence[str], hidden: bool) -> Piece:
    """Lines of one gauge family. `hidden`: an engine without a step yet has no sample."""
    children = list(zip(lines, engines, keys, strict=True))

    def write() -> str:
        return "".join(
            [
                f"{line}{number(metrics.gauges[key])}\n"
                for line, metrics, key in children
                if metrics.stepped or not hidden
            ]
        )

    return write
