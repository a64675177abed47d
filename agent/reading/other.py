"""What a page is that is not vLLM's. In: its text. Out: a sentence that says so and what to do about it."""

from __future__ import annotations

_KNOWN = (
    ("dynamo_frontend_", "this is Dynamo's frontend, a router; list it under router with kind dynamo"),
    ("llm_d_epp_", "this is llm-d's endpoint picker, a router; list it under router with kind llm-d-epp"),
    ("llm_d_router_epp_", "this is llm-d's endpoint picker, a router; list it under router with kind llm-d-epp"),
    ("inference_objective_", "this is llm-d's endpoint picker, a router; list it under router with kind llm-d-epp"),
    ("smg_router_", "this is SGLang's model gateway, a router; list it under router with kind smg"),
    ("envoy_http_", "this is an Envoy gateway's page; list it under router with kind envoy"),
    ("gen_ai_server_", "this is a gateway's page; list it under router with kind gen-ai"),
    ("agent_xfer_time", "this is the page of NIXL's telemetry exporter; give the address of the vLLM server"),
    ("vllm_router_", "this is vllm-router's page; list it under router with kind vllm-router"),
    (
        "dynamo_component_",
        "this is a page of Dynamo's on which vLLM shows nothing (yet): a worker may need its first request for it",
    ),
    ("pdwatch_", "this is pdwatch's own page; give the address of a vLLM server"),
    ("http_requests_total", "the server shows HTTP metrics alone: is it started with --disable-log-stats?"),
)


def what_else(text: str) -> str:
    """Return what a page without vLLM metrics seems to be."""
    start = text[:4096].lstrip("\ufeff \t\r\n").lower()
    if not start:
        what = "the page is empty; a multi-process server answers so at /metrics/ with a filter: use plain /metrics"
    elif start.startswith(("<!doctype", "<html", "<?xml", "<")):
        what = "the answer is an HTML page; is the path /metrics, and does nothing log in between?"
    elif "\x00" in text or text[:4096].count("\ufffd") > 8:
        what = "the answer is binary; is the address that of a metrics page?"
    else:
        what = next((words for mark, words in _KNOWN if mark in text), "no metric of vLLM's is on the page")
    return f"not a page of vLLM's: {what}"
