"""Traces in the configuration: whose spans are whose, who may send, where they go on to, where links lead."""

from pathlib import Path

import pytest

from agent.config import Config, Forward, load_config, masked
from agent.errors import ConfigError

POOLS = 'pools: {decode: {role: decode, targets: {decode-0: "http://10.0.0.1:8000"}}}\n'


def load(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "pdwatch.yaml"
    path.write_text(POOLS + text)
    return load_config(path, environ)


def test_everything_about_traces_can_be_set(tmp_path: Path):
    config = load(
        tmp_path,
        "links: {traces: 'https://jaeger.example/trace/{trace}'}\n"
        "traces:\n"
        "  services: {vllm-decode: decode, pod-1: decode-0}\n"
        "  bearer_token: secret\n"
        "  forward: http://collector:4318/v1/traces\n"
        "  max_body_bytes: 4MiB\n"
        "  spans_per_second: 100\n",
    )
    assert config.links.traces == "https://jaeger.example/trace/{trace}"
    assert config.traces.services == (("vllm-decode", "decode"), ("pod-1", "decode-0"))
    assert config.traces.forward == Forward("http://collector:4318/v1/traces")
    assert (config.traces.max_body_bytes, config.traces.spans_per_second) == (4 << 20, 100.0)
    shown = masked(config)["traces"]
    assert shown["bearer_token"] == "***"
    assert shown["services"] == {"vllm-decode": "decode", "pod-1": "decode-0"}


def test_a_forward_may_need_to_be_let_in(tmp_path: Path):
    text = "traces: {forward: {url: https://collector/v1/traces, auth: {bearer_token: secret}}}"
    forward = load(tmp_path, text).traces.forward
    assert forward is not None
    assert forward.auth.bearer_token == "secret"
    assert load(tmp_path, "", PDWATCH_TRACES_FORWARD_URL="http://c/v1/traces").traces.forward == Forward(
        "http://c/v1/traces"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("links: {traces: 'https://jaeger.example/trace/'}", "links.traces: has no {trace}"),
        ("traces: {forward: collector}", "traces.forward: 'collector' is not an http or https URL"),
        ("traces: {bearer_token: a, bearer_token_file: b}", "give 'bearer_token' or 'bearer_token_file', not both"),
        ("traces: {services: [a]}", "traces.services"),
        ("traces: {spans_per_second: 0}", "traces.spans_per_second: must be a number above 0"),
    ],
)
def test_is_refused_with_a_sentence(tmp_path: Path, text: str, says: str):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert says in str(error.value)
