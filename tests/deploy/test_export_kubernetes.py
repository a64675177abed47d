"""`pdwatch export kubernetes` for other configurations than the committed one: what is made, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cli import main
from agent.config import load_config
from agent.errors import ConfigError
from agent.export.kubernetes.files import kubernetes_files

FOUND = """
deployment: d
pools:
  prefill: {role: prefill, discovery: {kubernetes: {selector: "app=vllm,role=prefill", port: 8000}}}
  decode:
    role: decode
    sidecar_port: 9000
    discovery: {kubernetes: {selector: app=vllm, port: 8000}, labels: {role: decode}}
"""
LISTED = """
deployment: d
pools:
  prefill: {role: prefill, targets: {p: "http://10.0.0.1:8100"}}
  decode: {role: decode, targets: {d: "https://10.0.0.2/metrics"}}
"""


def made(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    file = tmp_path / "pdwatch.yaml"
    file.write_text(text, encoding="utf-8")
    return kubernetes_files(load_config(file, environ or {}))


def objects(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def test_listed_targets_need_neither_rights_nor_sidecars(tmp_path: Path) -> None:
    files = made(tmp_path, LISTED)
    assert not any(name.startswith(("components/sidecar", "components/vllm-metrics")) for name in files)
    assert "base/rights.yaml" not in files
    (deployment,) = objects(files["base/deployment.yaml"])
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    (policy,) = objects(files["base/networkpolicy.yaml"])
    assert [port["port"] for port in policy["spec"]["egress"][1]["ports"]] == [443, 8100]


def test_only_pools_with_a_sidecar_port_get_sidecars_on_that_port(tmp_path: Path) -> None:
    files = made(tmp_path, FOUND)
    assert {name for name in files if name.startswith("components/sidecar/")} == {
        "components/sidecar/kustomization.yaml",
        "components/sidecar/decode.yaml",
    }
    (patch,) = objects(files["components/sidecar/decode.yaml"])
    (sidecar,) = patch["spec"]["template"]["spec"]["initContainers"]
    assert sidecar["ports"][0]["containerPort"] == 9000
    assert {one["name"]: one.get("value") for one in sidecar["env"]}["PDWATCH_LISTEN"] == ":9000"


def test_labels_that_narrow_a_shared_source_narrow_every_selector(tmp_path: Path) -> None:
    files = made(tmp_path, FOUND)
    (whole,) = objects(files["components/sidecar/kustomization.yaml"])
    assert {patch["target"]["labelSelector"] for patch in whole["patches"]} == {"app=vllm,role=decode"}
    monitors = objects(files["components/vllm-metrics/podmonitor.yaml"])
    assert monitors[1]["spec"]["selector"] == {"matchLabels": {"app": "vllm", "role": "decode"}}


def test_who_is_paged_by_pdwatch_itself_gets_no_rules_but_a_way_out(tmp_path: Path) -> None:
    alerting = "alerting: {alertmanagers: ['http://alertmanager.monitoring:9093']}\n"
    files = made(tmp_path, FOUND + alerting)
    assert "components/monitoring/prometheusrule.yaml" not in files
    (policy,) = objects(files["base/networkpolicy.yaml"])
    assert {port["port"] for port in policy["spec"]["egress"][-1]["ports"]} == {443, 6443, 9093}


def test_variables_stay_variables_in_the_map(tmp_path: Path) -> None:
    alerting = "alerting: {slack: {url: '${SLACK_URL}'}}\n"
    files = made(tmp_path, FOUND + alerting, {"SLACK_URL": "https://hooks.example.com/abc"})
    assert "${SLACK_URL}" in files["base/pdwatch.yaml"]
    assert not any("hooks.example.com" in text for text in files.values())


def test_settings_of_the_memory_watch_reach_the_sidecars(tmp_path: Path) -> None:
    files = made(tmp_path, FOUND + "memory: {page_within: 2d, cache_budget: 4GiB}\n")
    (patch,) = objects(files["components/sidecar/decode.yaml"])
    (sidecar,) = patch["spec"]["template"]["spec"]["initContainers"]
    environ = {one["name"]: one["value"] for one in sidecar["env"] if "value" in one}
    environ["PDWATCH_POOLS"] = environ["PDWATCH_POOLS"].replace("$(POD_NAME)", "decode-0")
    memory = load_config(None, environ).memory
    assert (memory.page_within_seconds, memory.cache_budget_bytes) == (2 * 86400.0, 4 << 30)


NAMESPACES = FOUND.replace("port: 8000}}}", "port: 8000, namespace: a}}}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FOUND + "mode: sidecar\n", "export from that"),
        (FOUND.replace("deployment: d\n", ""), "'deployment' is not set"),
        (FOUND + "tls: {cert_file: a, key_file: b}\n", "leave out 'tls'"),
        (FOUND + "alerting: {slack: {url: 'https://hooks.example.com/abc'}}\n", "holds a secret"),
        (NAMESPACES, "several namespaces (a, pdwatch's own)"),
        (FOUND.replace("selector: app=vllm,", "selector: app>vllm,"), "pools.decode.discovery.kubernetes.selector: "),
        (
            FOUND.replace("selector: app=vllm, port: 8000", "selector: app=vllm, port: http"),
            "give the number of the port",
        ),
    ],
)
def test_what_cannot_be_made_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        made(tmp_path, text)
    assert str(error.value).startswith("export kubernetes: ")
    assert said in str(error.value)
    assert "hooks.example.com" not in str(error.value)


def test_addresses_on_the_command_line_are_refused_since_the_map_holds_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDWATCH_DEPLOYMENT", "d")
    arguments = ["--prefill", "http://p:8000", "--decode", "http://d:8000", "-o", str(tmp_path)]
    assert main(["export", "kubernetes", *arguments]) == 2
    assert "give the configuration as a file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
