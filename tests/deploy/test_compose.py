"""docker-compose.yml, without Docker: valid by the specification, hardened, pinned, and fitting what it mounts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from agent import __version__
from agent.cli import main
from agent.config import load_config
from agent.demo.world import target_names
from tests.deploy.rendered import STORY, documents

OURS = ("pdwatch", "fleet", "pdwatch-sidecar")
SERVERS = ("vllm-prefill", "vllm-decode")
FLEET_PORT = 9900


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load((repository / "docker-compose.yml").read_text(encoding="utf-8"))
    return value


def without_variables(text: str) -> str:
    """`${NAME:-default}` as compose reads it with nothing set."""
    return re.sub(r"\$\{[A-Z0-9_]+:-([^}]*)\}", r"\1", text)


def test_it_is_valid_by_the_compose_specification(compose: dict[str, Any], shared_dir: Path) -> None:
    schema = json.loads((shared_dir / "schemas" / "compose-spec.json").read_text(encoding="utf-8"))
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(compose)] == []


def test_every_service_is_confined_bounded_and_looked_after(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "mem_limit" in service, name
        assert "healthcheck" in service or name in OURS, name  # ours bring theirs in the image
        assert name in SERVERS or service["read_only"] is True, name
        assert "privileged" not in service, name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_every_image_is_pinned_to_a_version(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        _, _, tag = without_variables(service["image"]).rpartition(":")
        assert re.search(r"\d", tag), name
        assert tag not in ("latest", "main", "nightly"), name
    assert {compose["services"][name]["image"] for name in OURS} == {f"pdwatch:{__version__}"}


def test_what_is_mounted_is_there(compose: dict[str, Any], repository: Path) -> None:
    sources = [
        without_variables(volume).split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
    ]
    folders = [source for source in sources if source.startswith("./") and source != "./models"]
    assert len(folders) >= 7
    assert [source for source in folders if not (repository / source).exists()] == []
    assert {source for source in sources if "/" not in source} == set(compose["volumes"])


def test_without_a_profile_the_simulated_fleet_is_watched_and_no_gpu_is_asked_for(compose: dict[str, Any]) -> None:
    plain = {name for name, service in compose["services"].items() if "profiles" not in service}
    assert plain == {"pdwatch", "fleet", "prometheus", "alertmanager", "grafana"}
    assert not any("deploy" in compose["services"][name] for name in plain)


def test_the_watch_and_prometheus_ask_the_ports_on_which_the_fleet_serves(
    compose: dict[str, Any], repository: Path
) -> None:
    command = compose["services"]["fleet"]["command"]
    assert command[command.index("--fleet-listen") + 1] == f":{FLEET_PORT}"
    addresses = {name: f"fleet:{FLEET_PORT + 1 + number}" for number, name in enumerate(target_names())}
    config = load_config(repository / "deploy" / "compose" / "pdwatch.yaml", {})
    targets = [target for pool in config.pools for target in pool.targets]
    assert {target.name: target.url for target in targets} == {
        name: f"http://{address}/metrics" for name, address in addresses.items()
    }
    assert {sidecar.name for pool in config.pools for sidecar in pool.sidecars} == set(addresses)
    assert main(["check", "-c", str(config.file), "--offline"]) == 0
    prometheus = yaml.safe_load((repository / "deploy" / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    scraped = {
        group["labels"]["target"]: group["targets"][0]
        for job in prometheus["scrape_configs"]
        if job["job_name"] != "pdwatch"
        for group in job["static_configs"]
    }
    assert scraped == addresses


def test_prometheus_accepts_its_configuration_and_rules_as_they_are_mounted(
    compose: dict[str, Any], repository: Path, tmp_path: Path
) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: install prometheus")
    for volume in compose["services"]["prometheus"]["volumes"]:
        source, target = volume.split(":")[:2]
        if source.startswith("./"):
            assert target.startswith("/etc/prometheus/")
            shutil.copy(repository / source, tmp_path / Path(target).name)
    done = subprocess.run([promtool, "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout


def test_a_sidecar_is_configured_by_its_environment_alone(compose: dict[str, Any]) -> None:
    service = compose["services"]["pdwatch-sidecar"]
    environ = {name: without_variables(value) for name, value in service["environment"].items()}
    config = load_config(None, environ)
    assert config.mode == "sidecar"
    assert [target.name for pool in config.pools for target in pool.targets] == ["prefill-0"]
    assert service["pid"] == "host"


def test_compose_and_kubernetes_start_the_storys_servers_with_the_same_flags(compose: dict[str, Any]) -> None:
    story = {"vllm-prefill": (4, 1, "kv_producer"), "vllm-decode": (8, 3, "kv_consumer")}
    for name, (ranks, drafts, role) in story.items():
        service = compose["services"][name]
        arguments = service["command"]
        workload = documents(STORY / f"{name.removeprefix('vllm-')}.yaml")[1]
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert container["args"] == arguments
        assert [*service["entrypoint"]] == container["command"]
        assert container["image"] == service["image"]
        assert f"--data-parallel-size={ranks}" in arguments
        assert "--tensor-parallel-size=1" in arguments
        assert "--enable-expert-parallel" in arguments
        assert json.loads(arguments[arguments.index("--speculative-config") + 1])["num_speculative_tokens"] == drafts
        transfer = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
        assert (transfer["kv_connector"], transfer["kv_role"]) == ("NixlConnector", role)
        assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == ranks
        assert container["resources"]["limits"]["nvidia.com/gpu"] == ranks
    replicas = {role: documents(STORY / f"{role}.yaml")[1]["spec"]["replicas"] for role in ("prefill", "decode")}
    assert 4 * replicas["prefill"] + 8 * replicas["decode"] == 24


def test_the_router_knows_every_server_of_the_story(compose: dict[str, Any]) -> None:
    arguments = [without_variables(word) for word in compose["services"]["vllm-router"]["command"]]
    assert [arguments.count("--prefill"), arguments.count("--decode")] == [4, 1]
    (container,) = documents(STORY / "router.yaml")[1]["spec"]["template"]["spec"]["containers"]
    flags = [word for word in arguments if word.startswith("--")]
    assert [word for word in container["args"] if word.startswith("--")] == flags
