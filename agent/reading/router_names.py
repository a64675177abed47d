"""What routers put on their pages. In: a router's kind. Out: rows for a table of names, in logical names of our own.

Only names that the routers' own sources or pages show are here. A time is read only where it is the user's: what ends
when a server's response headers arrive (vllm-router, SMG) is neither a TTFT nor an end-to-end time and is left out.

    router_ttft, router_e2e, router_itl, router_tpot    histograms of seconds, at the first hop
    router_requests, router_errors                      counters; requests by outcome where the router says it
    router_prefill_requests, router_decode_requests     counters of the legs it sent
    router_running, router_queued                       gauges, now
    router_prompt_tokens, router_output_tokens          histograms of lengths
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agent.reading.name import ALL_LABELS, Choice, Kind, Name
from agent.reading.names import ROUTER_FAMILIES

KnownKind = Literal["llm-d-epp", "dynamo", "production-stack", "vllm-router", "smg", "gen-ai", "envoy"]


@dataclass(frozen=True, slots=True)
class RouterPage:
    """One kind of router. `root`: what its names begin with and a deployment can change ("" = cannot be changed).

    `marks`: beginnings of names by which its page is known.
    """

    called: str
    marks: tuple[str, ...]
    rows: tuple[Name, ...]
    root: str = ""


def _row(
    metric: str,
    kind: Kind,
    *aliases: str,
    own_label: str = "",
    only: tuple[Choice, ...] = (),
    never: tuple[Choice, ...] = (),
) -> Name:
    return Name(
        metric,
        kind,
        aliases,
        own_label=own_label,
        per_engine=False,
        vllm=False,
        raw_labels=ALL_LABELS,
        only=only,
        never=never,
        optional=True,
    )


PROCESS_START = Name(
    "process_start_time_seconds", "gauge", ("process_start_time_seconds",), per_engine=False, vllm=False
)
"""Tells two replicas behind one address, and a restart."""

_EPP, _EPP_OLD = "llm_d_epp", "llm_d_router_epp"
_OBJECTIVE, _MODEL, _EXTENSION = "inference_objective", "inference_model", "inference_extension"
_STREAMED: tuple[Choice, ...] = (("streaming", ("true",)),)
"""The first byte of an answer that is not streamed is its last as well: no TTFT."""
_NOT_ADMIN: tuple[Choice, ...] = (("envoy_http_conn_manager_prefix", ("admin",)),)

LLM_D_EPP = RouterPage(
    "llm-d's endpoint picker",
    (f"{_EPP}_", f"{_EPP_OLD}_", f"{_OBJECTIVE}_", f"{_MODEL}_request_", f"{_EXTENSION}_", "inference_pool_"),
    (
        _row(
            "router_ttft",
            "histogram",
            *(f"{root}_request_ttft_seconds" for root in (_EPP, _EPP_OLD, _OBJECTIVE)),
            only=_STREAMED,
        ),
        _row(
            "router_e2e",
            "histogram",
            *(f"{root}_request_duration_seconds" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL)),
        ),
        _row("router_tpot", "histogram", f"{_EPP}_request_streaming_tpot_seconds"),
        _row("router_itl", "histogram", f"{_EPP}_request_streaming_itl_seconds"),
        _row("router_requests", "counter", *(f"{root}_request_total" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL))),
        _row(
            "router_errors",
            "counter",
            *(f"{root}_request_error_total" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL)),
        ),
        _row(
            "router_running",
            "gauge",
            f"{_EPP}_request_running",
            *(f"{root}_running_requests" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL)),
        ),
        _row("router_queued", "gauge", *(f"{root}_flow_control_queue_size" for root in (_EPP, _EPP_OLD, _EXTENSION))),
        _row(
            "router_prompt_tokens",
            "histogram",
            f"{_EPP}_request_input_tokens",
            *(f"{root}_input_tokens" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL)),
        ),
        _row(
            "router_output_tokens",
            "histogram",
            f"{_EPP}_request_output_tokens",
            *(f"{root}_output_tokens" for root in (_EPP, _EPP_OLD, _OBJECTIVE, _MODEL)),
        ),
        PROCESS_START,
    ),
)

_D = "dynamo_frontend"
DYNAMO = RouterPage(
    "Dynamo's frontend",
    (f"{_D}_",),
    (
        _row("router_ttft", "histogram", f"{_D}_time_to_first_token_seconds"),
        _row("router_e2e", "histogram", f"{_D}_request_duration_seconds"),
        _row("router_itl", "histogram", f"{_D}_inter_token_latency_seconds"),
        _row("router_requests", "counter", f"{_D}_requests_total", own_label="status"),
        _row("router_running", "gauge", f"{_D}_inflight_requests"),
        _row("router_queued", "gauge", f"{_D}_queued_requests"),
        _row("router_prompt_tokens", "histogram", f"{_D}_input_sequence_tokens"),
        _row("router_output_tokens", "histogram", f"{_D}_output_sequence_tokens"),
        PROCESS_START,
    ),
    root=f"{_D}_",
)

PRODUCTION_STACK = RouterPage(
    "production-stack's router",
    tuple(sorted(ROUTER_FAMILIES)),
    (
        # Its other vllm: gauges repeat what the engines say of themselves.
        _row("router_requests", "counter", "vllm:num_incoming_requests_total"),
        _row("router_errors", "counter", "vllm:request_errors_total"),
        _row("router_e2e", "histogram", "vllm:request_latency_seconds"),
        PROCESS_START,
    ),
)

_V = "vllm_router"
VLLM_ROUTER = RouterPage(
    "vllm-router",
    (f"{_V}_",),
    (
        # In front of separate pools it counts in the pd_ families alone.
        _row("router_requests", "counter", f"{_V}_pd_requests_total", f"{_V}_requests_total", own_label="status_class"),
        _row("router_errors", "counter", f"{_V}_pd_errors_total", f"{_V}_request_errors_total"),
        _row("router_prefill_requests", "counter", f"{_V}_pd_prefill_requests_total"),
        _row("router_decode_requests", "counter", f"{_V}_pd_decode_requests_total"),
        _row("router_prefill_errors", "counter", f"{_V}_pd_prefill_errors_total"),
        _row("router_decode_errors", "counter", f"{_V}_pd_decode_errors_total"),
        _row("router_running", "gauge", f"{_V}_running_requests"),
    ),
)

SMG = RouterPage(
    "SGLang's model gateway",
    ("smg_",),
    (
        _row("router_requests", "counter", "smg_router_requests_total"),
        _row("router_errors", "counter", "smg_router_request_errors_total"),
        _row("router_running", "gauge", "smg_worker_requests_active"),
    ),
)

GEN_AI = RouterPage(
    "a gateway with OpenTelemetry's GenAI metrics",
    ("gen_ai_server_",),
    (
        _row(
            "router_ttft", "histogram", "gen_ai_server_time_to_first_token_seconds", "gen_ai_server_time_to_first_token"
        ),
        _row("router_e2e", "histogram", "gen_ai_server_request_duration_seconds", "gen_ai_server_request_duration"),
        _row(
            "router_tpot",
            "histogram",
            "gen_ai_server_time_per_output_token_seconds",
            "gen_ai_server_time_per_output_token",
        ),
        PROCESS_START,
    ),
)

ENVOY = RouterPage(
    "an Envoy gateway",
    ("envoy_http_",),
    (
        _row("router_requests", "counter", "envoy_http_downstream_rq_total", never=_NOT_ADMIN),
        _row(
            "router_responses",
            "counter",
            "envoy_http_downstream_rq_xx",
            own_label="envoy_response_code_class",
            never=_NOT_ADMIN,
        ),
        _row("router_e2e_milliseconds", "histogram", "envoy_http_downstream_rq_time", never=_NOT_ADMIN),
        _row("router_running", "gauge", "envoy_http_downstream_rq_active", never=_NOT_ADMIN),
    ),
)

ROUTERS: Mapping[KnownKind, RouterPage] = MappingProxyType(
    {
        "dynamo": DYNAMO,
        "llm-d-epp": LLM_D_EPP,
        "vllm-router": VLLM_ROUTER,
        "smg": SMG,
        "production-stack": PRODUCTION_STACK,
        "gen-ai": GEN_AI,
        "envoy": ENVOY,
    }
)
"""In the order in which a page is asked what it is: what is nearest to the requests first."""
