"""What else follows the targets: whose spans are whose, and which processes are looked for."""

import pytest

from agent.config import Config, Discovery, FileSd, Pool, Target, Traces
from agent.errors import ConfigError
from agent.model import Observation
from agent.sources.local_processes import ProcessSource
from agent.sources.traces_targets import TargetNames
from tests.sources.loopback import TurnedClock

FINDING = Discovery(file_sd=FileSd(("list.json",)))


def test_spans_may_be_of_targets_that_are_yet_to_be_found() -> None:
    traces = Traces(services=(("svc", "decode-7"),))
    names = TargetNames(Config(pools=(Pool(name="decode", role="decode", discovery=FINDING),), traces=traces))
    assert names.of({"service.name": "svc"}, 1) is None
    found = Pool(name="decode", role="decode", discovery=FINDING, targets=(Target("decode-7"), Target("decode-8")))
    names.retarget(Config(pools=(found,), traces=traces))
    assert names.of({"service.name": "svc"}, 1) == "decode-7"
    assert names.unknown == {"svc": 1}
    listed = Pool(name="decode", role="decode", targets=(Target("decode-8"),))
    with pytest.raises(ConfigError, match="neither a target nor a pool"):
        names.retarget(Config(pools=(listed,), traces=traces))
    assert names.of({"service.name": "svc"}, 1) == "decode-7", "nothing was changed by it"


def test_local_processes_are_those_of_the_targets_that_are_there_now() -> None:
    seen: list[Observation] = []

    def config(*urls: str) -> Config:
        targets = tuple(Target(url, url) for url in urls)
        return Config(pools=(Pool(name="p", role="both", discovery=FINDING, targets=targets),))

    source = ProcessSource(config("http://localhost:8000/m"), seen.append, TurnedClock())
    assert [hint.port for hint in source.targets.values()] == [8000]
    source.retarget(config("http://localhost:8001/m", "http://10.0.0.1:8000/m"))
    assert [hint.port for hint in source.targets.values()] == [8001]
