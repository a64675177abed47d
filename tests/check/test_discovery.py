"""What `pdwatch check` says of discovery and of sidecars, against real files and sockets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.check.discovery import discover
from agent.check.sidecars import ask_sidecars
from agent.cli import main
from agent.config import Config, Discovery, FileSd, Pool, Target, load_config
from agent.errors import ConfigError
from agent.sources.discovery.documents import read_yaml


def pool(name: str, file: Path, **labels: str) -> Pool:
    discovery = Discovery(file_sd=FileSd((str(file),)), labels=tuple(labels.items()))
    return Pool(name=name, role="decode", discovery=discovery)


async def test_what_was_found_is_said_by_pool_and_is_what_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    groups = [{"targets": [f"h{n}:8000" for n in range(12)], "labels": {"role": "decode"}}]
    file.write_text(json.dumps(groups), encoding="utf-8")
    config = Config(pools=(pool("decode", file, role="decode"), pool("spare", file, role="spare")))
    now, findings = await discover(config)
    assert len(now.pools[0].targets) == 12
    found, empty = findings
    assert (found.code, found.level, found.where) == ("discovery_found", "info", ("pools.decode.discovery",))
    assert found.text.startswith("12 targets found: h0:8000, h10:8000,")
    assert found.text.endswith("and 4 more")
    assert (empty.code, empty.level) == ("pool_empty", "error")
    assert "the list has 12 targets, and none of them matches" in empty.text


def test_a_source_that_fails_is_an_error_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text("pools: {decode: {role: decode, discovery: {file_sd: {files: [none.json]}}}}", encoding="utf-8")
    assert main(["check", "-c", str(file), "--json", "--for", "0.1s"]) == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = [finding for finding in findings if finding["code"] == "discovery_failed"]
    assert "none.json: no such file" in found["text"]
    assert main(["check", "-c", str(file), "--offline"]) == 1, "nobody is asked; there is no prefill pool"


async def test_a_sidecar_without_a_reading_of_the_target_is_said() -> None:
    observation = {"t": 5.0, "target": "localhost:8000", "port": 8000, "processes": []}
    answers = {"good": {"type": "processes", "at": 6.0, "instance": "i", "observations": [observation]}, "odd": []}

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(answers[request.match_info["which"]])

    app = web.Application()
    app.router.add_get("/{which}/api/v1/processes", answer)
    async with TestServer(app) as server:
        base = str(server.make_url("")).rstrip("/")
        wanted = {"a": "good", "b": "odd", "c": "missing"}
        targets = tuple(Target(name, f"http://{name}:8000/metrics") for name in wanted)
        sidecars = tuple(Target(name, f"{base}/{which}") for name, which in wanted.items())
        config = Config(pools=(Pool(name="decode", role="decode", targets=targets, sidecars=sidecars),))
        findings = await ask_sidecars(config)
    assert [(finding.code, finding.where) for finding in findings] == [
        ("sidecar_silent", ("b",)),
        ("sidecar_silent", ("c",)),
    ]
    assert "is it a pdwatch" in findings[0].text
    assert "http_500" in findings[1].text


def test_discovery_and_sidecars_load_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(
        """
pools:
  prefill: {role: prefill, discovery: {kubernetes: {port: http, selector: app=vllm}, labels: {role: prefill}}}
  decode: {role: decode, targets: {d: "http://d"}, sidecars: {d: "http://d:9838/"},
           discovery: {dns: {names: [_m._tcp.vllm], type: SRV}, scheme: https, path: /vllm/metrics}}
router: {kind: auto, discovery: {http_sd: {url: "http://lists/routers", auth: {bearer_token: secret}}}}
""",
        encoding="utf-8",
    )
    config = load_config(file, {})
    assert config.pools[1].sidecars == (Target("d", "http://d:9838"),)
    assert config.pools[0].targets == ()
    assert config.router is not None
    assert config.router.discovery is not None
    assert config.router.discovery.kind == "http_sd"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("discovery: {}", "one of file_sd, http_sd, dns, kubernetes: none is given"),
        ("discovery: {dns: {names: [a], port: 1}, file_sd: {files: [a.json]}}", "not file_sd and dns together"),
        ("discovery: {dns: {names: [a]}}", "A records have no port; give it as 'port'"),
        ("discovery: {dns: {names: ['a:8000'], port: 1}}", "give the host alone"),
        ("discovery: {dns: {names: [], port: 1}}", "holds no name"),
        ("discovery: {file_sd: {files: [list.txt]}}", "must end with .json, .yaml or .yml"),
        ("discovery: {file_sd: {files: []}}", "holds no path"),
        ("discovery: {file_sd: {files: [a.json], interval: 0.1s}}", "must be at least 1s"),
        ("discovery: {kubernetes: {port: 70000}}", "70000 is not a port"),
        ("discovery: {kubernetes: {port: 'a b'}}", "neither a port's number nor a container port's name"),
        ("discovery: {http_sd: {url: 'http://u:p@lists'}}", "a user or password inside a URL would be shown"),
        ("discovery: {file_sd: {files: [a.json]}, path: metrics}", "is not a path such as /metrics"),
        ("targets: {a: 'http://a'}, sidecars: {b: 'http://b'}", "'b' is no target of this pool"),
        ("targets: {a: 'http://a'}, sidecar_port: 0", "must be at least 1"),
    ],
)
def test_a_discovery_that_cannot_be_is_refused_where_it_stands(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(f"pools: {{decode: {{role: decode, {text}}}}}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"pdwatch\.yaml:1: ") as caught:
        load_config(file, {})
    assert said in str(caught.value)


@pytest.mark.parametrize("page", ["discovery.md", "modes.md"])
def test_every_example_of_the_documentation_is_one_that_loads(page: str, repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs" / page).read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        if example.startswith("- targets"):
            names = [target.name for target in read_yaml(example.encode(), page).targets]
            assert names == ["10.0.0.10:8000", "[2001:db8::7]:8000", "decode-0"]
            continue
        file = tmp_path / "example.yaml"
        file.write_text(example, encoding="utf-8")
        load_config(file, {})
