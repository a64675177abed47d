"""State documents for the tests of the terminal. In: nothing. Out: JSON values as a running pdwatch gives them."""

from __future__ import annotations

from typing import Any

AT = 1_795_990_302.0


def dist(mean: float | None, low: float = 0.0, high: float | None = 0.0) -> dict[str, Any]:
    """A distribution with its 95th percentile between two bounds."""
    if mean is None:
        return {"status": "not_applicable", "count": 0, "mean": None, "quantiles": {"0.95": None}}
    p95 = {"value": low, "low": low, "high": high, "likely": None}
    return {"status": "ok", "count": 40, "mean": mean, "quantiles": {"0.95": p95}}


def engine(tpot: float | None, running: float, kv: float, ttft: float = 2.0) -> dict[str, Any]:
    return {
        "latency": {
            "ttft": dist(ttft, 1.5, 2.5),
            "tpot": dist(tpot, 0.02, 0.03),
            "itl": dist(None if tpot is None else 2 * tpot),
        },
        "speculation": {"acceptance_length": 2.61} if tpot is not None else None,
        "load": {"running": running, "waiting": running // 4, "kv_usage_max": kv, "preemptions": 0},
        "throughput": {"generation_tokens_per_s": 1234.5 if tpot else 0.5},
    }


def target(engines: dict[str, Any], age_s: float = 2.1) -> dict[str, Any]:
    return {"up": True, "age_s": age_s, "engines": engines}


def pool(role: str, targets: dict[str, Any], ttft: dict[str, Any], tpot: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": role,
        "targets": targets,
        "latency": {"ttft": ttft, "tpot": tpot},
        "speculation": {"acceptance_length": 2.61} if role == "decode" else None,
        "load": {"running": 112.0, "waiting": 9.0, "kv_usage_max": 0.714},
        "throughput": {"requests_per_s": 1.37, "generation_tokens_per_s": 9876.0},
        "outcomes": {"stop": 400, "error": 0},
    }


def process(title: str, trend: str, per_hour: float, hours: float | None) -> dict[str, Any]:
    return {
        "target": "decode-0",
        "title": title,
        "anon_bytes": 38 << 30,
        "trend": trend,
        "severity": "critical" if trend == "leaking" else None,
        "slope_bytes_per_hour": {"value": per_hour, "low": per_hour - 2e7, "high": per_hour + 2e7},
        "hours_to_limit": {"value": hours, "low": hours and 0.8 * hours, "high": hours and 1.3 * hours},
    }


def verdict(objective: str, word: str, text: str, cause: str | None = None) -> dict[str, Any]:
    return {
        "objective": objective,
        "scope": "system" if objective == "ttft" else "decode",
        "verdict": word,
        "status": "firing" if word == "breached" else "ok",
        "since": AT - 730,
        "value": 0.0231,
        "low": 0.0229,
        "high": 0.0233,
        "target": 0.02,
        "count": 412,
        "cause": None if cause is None else {"code": "acceptance_drop", "text": cause},
        "text": text,
    }


def broken() -> dict[str, Any]:
    """A fleet of four prefill and two decode targets whose TPOT is not kept, with a leak and a target that is down."""
    prefill = {f"prefill-{n}": target({"0": engine(None, 4 - n, 0.1 + 0.05 * n, 1.5 + n)}) for n in range(4)}
    prefill["prefill-3"] |= {"up": False, "age_s": 64.0, "error": "timeout"}
    decode = {
        f"decode-{n}": target({str(rank): engine(0.018 + 0.001 * (rank + 8 * n), 14 + rank, 0.6) for rank in range(8)})
        for n in range(2)
    }
    return {
        "type": "state",
        "at": AT,
        "window_s": 300.0,
        "deployment": "glm-prod",
        "pools": {
            "prefill": pool("prefill", prefill, dist(1.61, 2.2, 2.6), dist(None)),
            "decode": pool("decode", decode, dist(0.21, 0.31, 0.42), dist(0.0231, 0.0295, 0.0312)),
        },
        "system": {"ttft": {**dist(1.82, 2.45, None), "source": "composed"}, "requests_per_s": 1.37},
        "memory": [
            process("VLLM::EngineCore_DP0", "leaking", 1.1e9, 18.0),
            *[process(f"VLLM::Worker_TP{n}", "steady", 3e6, None) for n in range(8)],
        ],
        "verdicts": [
            verdict("ttft", "met", "mean TTFT of the system 1.82 s over 398 requests in the last 5m, promised 2.5 s"),
            verdict(
                "tpot",
                "breached",
                "mean TPOT of decode 23.1 ms over 412 requests in the last 5m, promised 20 ms",
                "accepted tokens per step fell from 2.9 to 2.61 while the time of a step stayed as it was; "
                "look at what is asked for (temperature, languages) before looking at the engines",
            ),
        ],
        "problems": [
            {"code": "unreachable", "severity": "warning", "since": AT - 61, "text": "prefill-3 does not answer"},
            {
                "code": "memory_leak",
                "severity": "critical",
                "since": AT - 4000,
                "text": "VLLM::EngineCore_DP0 of decode-0 leaks memory: 1.02 GiB an hour; the limit is reached in 18 h",
            },
        ],
    }


def quiet() -> dict[str, Any]:
    """One co-located engine before its first request."""
    nothing = {"status": "no_data", "count": 0, "mean": None, "quantiles": {"0.95": None}}
    return {
        "type": "state",
        "at": AT,
        "window_s": 300.0,
        "deployment": None,
        "pools": {
            "both": {
                "role": "both",
                "targets": {"vllm-0": {"up": True, "age_s": 1.0, "engines": {"0": {"load": {"running": 0.0}}}}},
                "latency": {"ttft": nothing, "tpot": nothing},
                "load": {"running": 0.0, "waiting": 0.0, "kv_usage_max": 0.0},
            }
        },
        "system": {"ttft": nothing, "requests_per_s": 0.0},
        "memory": [],
        "verdicts": [{**verdict("tpot", "no_data", "no request finished in the last 5m"), "status": "ok"}],
        "problems": [],
    }
