"""Spans in recordings: `record` takes them as a watching pdwatch does, and replaying them gives the same requests."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import runtime
from agent.config import Config, Pool, Target, Traces, config_from_names
from agent.errors import ConfigError
from agent.model import Observation, Span, SpansObservation
from agent.outputs.state_json import state_text
from agent.runtime import Stop, record_world
from agent.sources.recordings import RecordingWriter, read_recording
from agent.watch import Watch
from tests.sources.otlp_bodies import PROTOBUF, protobuf_body
from tests.spans import START, decode_span, prefill_span

# Addresses of nobody, and not of this host: what they show is not what is recorded here.
POOLS = (
    Pool("prefill", "prefill", (Target("prefill-0", "http://192.0.2.1:9/metrics"),)),
    Pool("decode", "decode", (Target("decode-0", "http://192.0.2.1:9/other"),)),
)


def requests_of(observations: list[Observation], at: float) -> dict[str, Any]:
    """What a watch says about the requests of the last five minutes."""
    watch = Watch(Config(pools=POOLS))
    for observation in observations:
        watch.observe(observation)
    state = json.loads(state_text(watch.state(at)))
    return {name: state[name] for name in ("requests", "slowest_requests")}


IDS = st.sampled_from(["cmpl-a-0", "cmpl-b-0", "chatcmpl-ü-0", "cmpl-c"])
SECONDS = st.floats(0.001, 60.0)


@st.composite
def spans(draw: st.DrawFn) -> SpansObservation:
    begin, request = START + draw(st.floats(0.0, 60.0)), draw(IDS)
    span: Span
    if draw(st.booleans()):
        target, span = "prefill-0", prefill_span(request, begin, draw(SECONDS))
    else:
        target = draw(st.sampled_from(["decode-0", "decode"]))
        span = decode_span(request, begin, draw(SECONDS), draw(st.integers(1, 1000)), draw(SECONDS))
    return SpansObservation(START + 120.0 + draw(st.floats(0.0, 1.0)), target, (span,))


@settings(max_examples=25)
@given(st.lists(spans(), min_size=1, max_size=20))
def test_replaying_recorded_spans_gives_the_same_requests(
    tmp_path_factory: pytest.TempPathFactory, observed: list[SpansObservation]
) -> None:
    path = tmp_path_factory.mktemp("recorded") / "spans.jsonl.gz"
    in_order: list[Observation] = sorted(observed, key=lambda each: each.t)
    with RecordingWriter(path) as writer:
        for observation in in_order:
            writer.write(observation)
    at = in_order[-1].t + 1.0
    assert requests_of(list(read_recording([path])), at) == requests_of(in_order, at)


class Listening(asyncio.Event):
    """Set once the log says where spans may be sent to."""

    said = ""

    def info(self, form: str, *values: object) -> None:
        if form.startswith("recording spans"):
            self.said = str(values[0])
            self.set()


async def test_a_recording_takes_spans_over_http_and_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listening = Listening()
    monkeypatch.setattr(runtime.log, "info", listening.info)
    config = Config(pools=POOLS, traces=Traces(grpc_listen="127.0.0.1:0"), listen="127.0.0.1:0")
    stop, path = Stop(), tmp_path / "out.jsonl"
    work = asyncio.create_task(record_world(config, path, stop))
    async with asyncio.timeout(10):
        await listening.wait()
    http, _, grpc_at = listening.said.removesuffix(" (gRPC)").partition(" and ")
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            http, data=protobuf_body("prefill-0", prefill_span()), headers={"Content-Type": PROTOBUF}
        ) as answer,
    ):
        assert answer.status == 200
    async with grpc.aio.insecure_channel(grpc_at) as channel:
        export: Any = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        await export(protobuf_body("decode-0", decode_span()), timeout=10)
    stop.want(0)
    await work
    recorded = [line for line in read_recording([path]) if isinstance(line, SpansObservation)]
    assert [line.target for line in recorded] == ["prefill-0", "decode-0"]
    counts = requests_of([*recorded], recorded[-1].t + 1.0)["requests"]["counts"]
    assert counts["joined"] == 1


async def test_without_spans_in_the_configuration_a_recording_listens_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()
    stop.want(0)
    # An address that cannot be listened on: nobody tries.
    await record_world(Config(pools=POOLS, listen="192.0.2.1:1"), tmp_path / "a.jsonl", stop)
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:1 cannot be had for spans; name another with --listen"):
        await record_world(Config(pools=POOLS), tmp_path / "b.jsonl", stop, listen="192.0.2.1:1")


def test_spans_of_a_whole_pool_make_no_target_of_it() -> None:
    config = config_from_names({"prefill-0", "decode-0", "decode-1", "decode"})
    assert [target.name for pool in config.pools for target in pool.targets] == ["prefill-0", "decode-0", "decode-1"]
