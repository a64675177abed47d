"""What the spans of a window say: sums by group come in; distributions by scope, length and place go out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from agent.indicators.distribution import NO_QUANTILES
from agent.indicators.requests.samples import BAND_EDGES, VALUES, Group, Kind
from agent.indicators.requests.sketch import Sketch
from agent.indicators.requests.slots import Covered, merged
from agent.requests_state import RequestBand, RequestPair, SlowRequest
from agent.state import Distribution, SystemTtft, TtftParts
from agent.windows.joined_request import Parts, Request

SLOWEST_SHOWN = 20
PAIRS_SHOWN = 64
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class SpansView:
    """One window. `contract` True: only prompts of the lengths that are promised for. `since`, `until`: what it covers,
    which is within a slot of what was asked for, and exactly that where single samples are still held.
    """

    def __init__(self, covered: Covered) -> None:
        self.since, self.until = covered.since, covered.until
        self._sums = covered.sums
        self._slowest = covered.slowest

    @cached_property
    def requests(self) -> int:
        """Whole requests in the window."""
        return self._request("ttft").count

    def ttft(self, contract: bool = False) -> Distribution:
        """What users waited for their first token."""
        return self._request("ttft", contract).distribution()

    def tpot(self, contract: bool = False) -> Distribution:
        """Time per output token after the first, of whole requests."""
        return self._request("tpot", contract).distribution()

    def parts(self, contract: bool = False) -> dict[str, Distribution]:
        """Name -> distribution of `retries`, `queue`, `prefill`, `handover`, `kv_wait`, `first_step`, `rest`, `e2e`."""
        return {name: self._part(name, contract).distribution() for name in (*Parts._fields, "e2e")}

    def pool(self, pool: str, contract: bool = False) -> dict[str, Distribution]:
        """Latency -> distribution over the pool's sound legs, joined or not, as its own histograms define them."""
        return {name: self.pool_sketch(pool, name, contract).distribution() for name in VALUES["pool"]}

    def pool_sketch(self, pool: str, latency: str, contract: bool = False) -> Sketch:
        """The same as a sketch, for comparing."""
        return self._merged("pool", latency, lambda group: group.name == pool and (group.inside or not contract))

    def system_sketch(self, latency: str, contract: bool = False) -> Sketch:
        """`ttft`, `tpot` or `e2e` of whole requests, as a sketch, for judging."""
        return self._part("e2e", contract) if latency == "e2e" else self._request(latency, contract)

    def system_ttft(self, contract: bool = False) -> SystemTtft:
        """In the state's form; `parts` add up to the mean."""
        found = self.ttft(contract)
        leg = self._part("prefill_leg", contract).mean
        if found.mean is None:
            return SystemTtft("no_data", 0, None, NO_QUANTILES, "traces", TtftParts(None, None))
        rest = found.mean - leg if leg is not None else found.mean
        return SystemTtft("ok", found.count, found.mean, found.quantiles, "traces", TtftParts(leg, rest))

    def bands(self) -> tuple[RequestBand, ...]:
        """By prompt length, shortest first; only bands with requests. The last has no upper end."""
        found = []
        for band in range(len(BAND_EDGES) + 1):
            ttft, tpot = self._band("ttft", band), self._band("tpot", band)
            if ttft.count:
                low = BAND_EDGES[band - 1] + 1 if band else 1
                high = BAND_EDGES[band] if band < len(BAND_EDGES) else None
                found.append(RequestBand(low, high, ttft.count, ttft.distribution(), tpot.distribution()))
        return tuple(found)

    def pairs(self) -> tuple[RequestPair, ...]:
        """By prefill target and decode target, most requests first; they are kept for ten minutes only."""
        found = []
        for group, (ttft, handover, kv_wait) in self._sums_of("pair").items():
            found.append(
                RequestPair(group.name, group.other, ttft.count, ttft.distribution(), handover.mean, kv_wait.mean)
            )
        return tuple(sorted(found, key=lambda pair: (-pair.count, pair.prefill, pair.decode))[:PAIRS_SHOWN])

    def slowest(self, link: str | None = None, most: int = SLOWEST_SHOWN) -> tuple[SlowRequest, ...]:
        """By TTFT. `link`: the trace backend's URL with `{trace}` and `{request}` in it."""
        return tuple(_slow(request, link) for request in self._slowest[:most])

    def met_share(self, contract: bool = True) -> float | None:
        """Share of requests that had both the promised TTFT and the promised TPOT; None when none is known to."""
        known = {met: self._count_met(met, contract) for met in (True, False)}
        whole = sum(known.values())
        return known[True] / whole if whole else None

    def met_tokens(self, contract: bool = True) -> float:
        """Output tokens of the requests that were served as promised."""
        return self._merged(
            "request", "tokens", lambda group: group.met is True and (group.inside or not contract)
        ).total

    def _count_met(self, met: bool, contract: bool) -> int:
        return self._merged("request", "ttft", lambda group: group.met is met and (group.inside or not contract)).count

    def _request(self, value: str, contract: bool = False) -> Sketch:
        return self._merged("request", value, lambda group: group.inside or not contract)

    def _band(self, value: str, band: int) -> Sketch:
        return self._merged("request", value, lambda group: group.band == band)

    def _part(self, value: str, contract: bool) -> Sketch:
        return self._merged("parts", value, lambda group: group.inside or not contract)

    def _sums_of(self, kind: Kind) -> Mapping[Group, list[Sketch]]:
        return {group: sketches for group, sketches in self._sums.items() if group.kind == kind}

    def _merged(self, kind: Kind, value: str, wanted: Callable[[Group], bool]) -> Sketch:
        groups = [group for group in self._sums if group.kind == kind and wanted(group)]
        return merged(self._sums, groups, VALUES[kind].index(value))


def _slow(request: Request, link: str | None) -> SlowRequest:
    return SlowRequest(
        at=request.at,
        ttft_s=request.ttft_seconds,
        tpot_s=request.tpot_seconds,
        e2e_s=request.e2e_seconds,
        parts=request.parts._asdict(),
        prefill=request.prefill or None,
        decode=request.decode,
        prompt_tokens=request.prompt_tokens,
        completion_tokens=request.completion_tokens,
        trace=request.trace,
        request=request.request,
        link=None if link is None else trace_link(link, request.trace, request.request),
    )


def trace_link(template: str, trace: str, request: str) -> str:
    """The template with both ids in place, escaped for any part of a URL (RFC 3986, section 2.1)."""
    return template.replace("{trace}", _escaped(trace)).replace("{request}", _escaped(request))


def _escaped(text: str) -> str:
    plain = text.encode("utf-8", "replace")
    return "".join(chr(byte) if chr(byte) in UNRESERVED else f"%{byte:02X}" for byte in plain)
