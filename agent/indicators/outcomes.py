"""Outcomes and throughput: finish reasons, HTTP answers and token counters come in, counts and rates go out.

vLLM counts a finished request under its reason; a request that the server failed is reason error (since 0.13). Clients
that hang up are not counted at all, so "finished" is not "arrived".
"""

from __future__ import annotations

from agent.state import Distribution, Throughput
from agent.windows.increase import Increase

REASONS = ("stop", "length", "error", "abort")
HTTP_CLASSES = ("2xx", "4xx", "5xx")


def outcomes(increase: Increase) -> dict[str, int]:
    """Finish reason -> requests; the usual reasons are always there when the page has the counter at all."""
    counted = increase.labels("requests_finished")
    if not counted:
        return {}
    return {reason: round(counted.get(reason, 0.0)) for reason in (*REASONS, *sorted(set(counted) - {*REASONS}))}


def http_answers(increase: Increase) -> dict[str, int]:
    """Status class -> answers, and refused admissions. Classes are there once the page has the counter."""
    counted = increase.labels("http_requests")
    answers = {status: round(counted.get(status, 0.0)) for status in HTTP_CLASSES} if counted else {}
    refused = increase.labels("admission_rejections")
    if refused:
        answers["admission_rejected"] = round(sum(refused.values()))
    return answers


def finished(increase: Increase) -> float | None:
    """Requests that finished, for whatever reason."""
    counted = increase.labels("requests_finished")
    return sum(counted.values()) if counted else None


def rate(count: float | None, seconds: float) -> float | None:
    """Per second; None where the count or the time is not known."""
    return count / seconds if count is not None and seconds > 0 else None


def throughput(increase: Increase, seconds: float, tpot: Distribution) -> Throughput:
    """Of one engine or target that was watched for `seconds`."""
    return Throughput(
        requests_per_s=rate(finished(increase), seconds),
        prompt_tokens_per_s=rate(increase.count("prompt_tokens"), seconds),
        generation_tokens_per_s=rate(increase.count("generation_tokens"), seconds),
        tokens_per_s_per_user=per_user(tpot),
    )


def per_user(tpot: Distribution) -> float | None:
    """Tokens per second that one user sees: 1 / mean TPOT."""
    return 1 / tpot.mean if tpot.mean else None


def summed(parts: list[Throughput], gpus: int | None, tpot: Distribution) -> Throughput:
    """Of a pool: each target's rate over its own time, added."""

    def total(name: str) -> float | None:
        values = [value for part in parts if (value := getattr(part, name)) is not None]
        return sum(values) if values else None

    generated = total("generation_tokens_per_s")
    return Throughput(
        requests_per_s=total("requests_per_s"),
        prompt_tokens_per_s=total("prompt_tokens_per_s"),
        generation_tokens_per_s=generated,
        generation_tokens_per_s_per_gpu=generated / gpus if generated is not None and gpus else None,
        tokens_per_s_per_user=per_user(tpot),
    )
