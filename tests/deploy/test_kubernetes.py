"""The committed manifests: made from the configuration, complete, valid, and fitting one another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from agent.cli import main
from agent.config import load_config
from agent.export.kubernetes.files import kubernetes_files
from agent.export.kubernetes.recordings import vllm_recordings
from agent.export.rules.prometheus import rule_file
from tests.deploy.rendered import DEPLOY, REPOSITORY, STORY, Object, documents, of_kind, pod_of, rendered, the

INPUT = REPOSITORY / "deploy" / "pdwatch.yaml"
KUBERNETES_VERSIONS = ("1.29", "1.34")
"""Native sidecars are on by default since the first."""
CUSTOM = {"PodMonitor": "podmonitors.yaml", "PrometheusRule": "prometheusrules.yaml"}
FOLDERS = {"deploy": DEPLOY, "story": STORY}


def kustomizations() -> list[Path]:
    return sorted([*DEPLOY.rglob("kustomization.yaml"), *STORY.rglob("kustomization.yaml")])


# -- made from the configuration --------------------------------------------------------------------------------------


def test_the_committed_files_are_those_of_the_configuration() -> None:
    made = kubernetes_files(load_config(INPUT, {}))
    committed = {str(path.relative_to(DEPLOY)): path.read_text(encoding="utf-8") for path in _files(DEPLOY)}
    assert sorted(committed) == sorted(made)
    assert [name for name in made if committed[name] != made[name]] == []


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "kubernetes", "-c", str(INPUT), "-o", str(tmp_path)]) == 0
    written = {str(path.relative_to(tmp_path)) for path in _files(tmp_path)}
    assert written == {str(path.relative_to(DEPLOY)) for path in _files(DEPLOY)}
    assert len(capsys.readouterr().out.splitlines()) == len(written)


def test_the_recordings_of_compose_are_those_of_the_rules() -> None:
    config = load_config(REPOSITORY / "alerts" / "pdwatch.yaml", {})
    committed = (REPOSITORY / "deploy" / "compose" / "vllm-recordings.yml").read_text(encoding="utf-8")
    assert committed == rule_file(vllm_recordings(config))
    rules = [rule for group in yaml.safe_load(committed)["groups"] for rule in group["rules"]]
    assert rules
    assert all("record" in rule for rule in rules)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# -- complete ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", kustomizations(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_everything_that_a_kustomization_names_is_there_and_nothing_lies_beside_it(path: Path) -> None:
    (value,) = documents(path)
    named = [*value.get("resources", ()), *value.get("components", ())]
    named += [patch["path"] for patch in value.get("patches", ())]
    named += [name for generator in value.get("configMapGenerator", ()) for name in generator["files"]]
    assert [name for name in named if not (path.parent / name).exists()] == []
    beside = {one.name for one in path.parent.iterdir() if one.is_file()} - {"kustomization.yaml"}
    assert beside <= set(named)


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_can_be_rendered_and_names_no_object_twice(folder: str) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered(FOLDERS[folder])]
    assert len(names) == len(set(names))
    assert {one["metadata"]["namespace"] for one in rendered(FOLDERS[folder])} == {
        "default" if folder == "deploy" else "glm"
    }


# -- valid ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_core_objects_are_valid_for_the_oldest_and_a_recent_kubernetes(folder: str, version: str) -> None:
    checked = 0
    for one in rendered(FOLDERS[folder]):
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, version, strict=True)
            checked += 1
    assert checked >= 15


@pytest.mark.parametrize("folder", FOLDERS)
def test_custom_objects_are_valid_by_their_definitions(folder: str, shared_dir: Path) -> None:
    checked = []
    for kind, file in CUSTOM.items():
        validator = jsonschema.Draft202012Validator(_custom_schema(shared_dir / "schemas" / "kubernetes" / file))
        for one in of_kind(rendered(FOLDERS[folder]), kind):
            assert [error.message for error in validator.iter_errors(one)] == []
            checked.append(kind)
    assert set(checked) == set(CUSTOM)


def test_the_monitors_of_vllm_are_valid_too(shared_dir: Path) -> None:
    validator = jsonschema.Draft202012Validator(
        _custom_schema(shared_dir / "schemas" / "kubernetes" / "podmonitors.yaml")
    )
    monitors = documents(DEPLOY / "components" / "vllm-metrics" / "podmonitor.yaml")
    assert [monitor["metadata"]["name"] for monitor in monitors] == ["vllm-prefill", "vllm-decode"]
    assert [error.message for monitor in monitors for error in validator.iter_errors(monitor)] == []


def _custom_schema(path: Path) -> Any:
    """The schema of a custom resource, closed: the API server drops fields that it does not know, silently."""
    (definition,) = documents(path)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = {"type": "object"}
    for part in _parts(schema):
        if "properties" in part and "x-kubernetes-preserve-unknown-fields" not in part:
            part.setdefault("additionalProperties", False)
    return schema


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from _parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _parts(value)


# -- safe -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", ["central", "prefill", "decode"])
def test_pdwatch_keeps_the_restricted_pod_security_standard(workload: str) -> None:
    kind, name = ("Deployment", "pdwatch") if workload == "central" else ("StatefulSet", workload)
    pod = pod_of(the(rendered(STORY), kind, name))
    (container,) = [one for one in _containers(pod) if one["name"] == "pdwatch"]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod.get("volumes", ()))


def test_its_rights_are_to_read_pods_of_its_namespace() -> None:
    (role,) = of_kind(rendered(DEPLOY), "Role")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    assert of_kind(rendered(DEPLOY), "ClusterRole") == []
    (binding,) = of_kind(rendered(DEPLOY), "RoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "pdwatch", "namespace": "default"}]


def test_probes_ask_what_pdwatch_answers_and_a_sidecar_cannot_take_its_server_out_of_service() -> None:
    (central,) = pod_of(the(rendered(STORY), "Deployment", "pdwatch"))["containers"]
    assert central["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert central["readinessProbe"]["httpGet"]["path"] == "/-/ready"
    (sidecar,) = pod_of(the(rendered(STORY), "StatefulSet", "decode"))["initContainers"]
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert "readinessProbe" not in sidecar
    assert "startupProbe" not in sidecar


# -- fitting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_every_server_gets_a_native_sidecar_that_sees_its_processes(role: str) -> None:
    pod = pod_of(the(rendered(STORY), "StatefulSet", role))
    assert pod["shareProcessNamespace"] is True
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert [container["name"] for container in pod["containers"]] == ["vllm"]


@pytest.mark.parametrize(("role", "gpus"), [("prefill", 4), ("decode", 8)])
def test_a_sidecars_environment_is_a_whole_configuration_of_its_own_server(role: str, gpus: int) -> None:
    (sidecar,) = pod_of(the(rendered(STORY), "StatefulSet", role))["initContainers"]
    assert sidecar["args"] == ["run"]
    pod_name = f"{role}-3"
    environ = {one["name"]: one.get("value", pod_name) for one in sidecar["env"]}
    assert next(iter(environ)) == "POD_NAME"
    config = load_config(
        None, {name: _expanded(value, environ) for name, value in environ.items() if name != "POD_NAME"}
    )
    assert config.mode == "sidecar"
    assert config.deployment == "glm-prod"
    (pool,) = config.pools
    assert (pool.name, pool.role, pool.gpus_per_target) == (role, role, gpus)
    assert [(target.name, target.url) for target in pool.targets] == [(pod_name, "http://127.0.0.1:8000/metrics")]
    assert sidecar["ports"][0]["containerPort"] == int(config.listen.rpartition(":")[2])


def _expanded(value: str, environ: dict[str, str]) -> str:
    """As Kubernetes replaces `$(NAME)`."""
    return re.sub(r"\$\(([A-Z_]+)\)", lambda match: environ[match[1]], value)


def test_central_reads_the_committed_configuration_and_writes_only_its_volume() -> None:
    pod = pod_of(the(rendered(DEPLOY), "Deployment", "pdwatch"))
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    config_map = the(rendered(DEPLOY), "ConfigMap", volumes["config"]["configMap"]["name"])
    assert config_map["data"]["pdwatch.yaml"] == INPUT.read_text(encoding="utf-8")
    assert container["args"] == ["run", "-c", f"{mounts['config']['mountPath']}/pdwatch.yaml"]
    environ = {one["name"]: one["value"] for one in container["env"]}
    assert environ["PDWATCH_STATE_DIR"] == mounts["state"]["mountPath"]
    assert the(rendered(DEPLOY), "PersistentVolumeClaim", volumes["state"]["persistentVolumeClaim"]["claimName"])
    config = load_config(INPUT, environ)
    assert (config.state_dir, config.listen) == (environ["PDWATCH_STATE_DIR"], ":9838")


def test_services_monitors_and_budgets_select_pods_that_there_are() -> None:
    pods = [
        one["spec"]["template"]["metadata"]["labels"] for one in rendered(STORY) if "template" in one.get("spec", {})
    ]
    selectors = {
        f"{one['kind']} {one['metadata']['name']}": one["spec"]["selector"]
        for kind in ("Service", "PodMonitor", "PodDisruptionBudget")
        for one in of_kind(rendered(STORY), kind)
    }
    assert len(selectors) >= 9
    for name, selector in selectors.items():
        wanted = selector.get("matchLabels", selector)
        assert any(wanted.items() <= labels.items() for labels in pods), name


def test_a_named_port_is_one_that_the_pods_have() -> None:
    for one in of_kind(rendered(STORY), "PodMonitor"):
        wanted = one["spec"]["selector"]["matchLabels"]
        for workload in rendered(STORY):
            template = workload.get("spec", {}).get("template")
            if template and wanted.items() <= template["metadata"]["labels"].items():
                ports = {port["name"] for container in _containers(template["spec"]) for port in container["ports"]}
                assert {endpoint["port"] for endpoint in one["spec"]["podMetricsEndpoints"]} <= ports


def test_vllms_pages_get_the_labels_that_rules_and_boards_need() -> None:
    for monitor, role in zip(
        documents(DEPLOY / "components" / "vllm-metrics" / "podmonitor.yaml"), ("prefill", "decode"), strict=True
    ):
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        labels = {
            rule["targetLabel"]: rule.get("replacement", rule.get("sourceLabels")) for rule in endpoint["relabelings"]
        }
        assert labels == {
            "deployment": "glm-prod",
            "pool": role,
            "role": role,
            "target": ["__meta_kubernetes_pod_name"],
        }
        assert endpoint["portNumber"] == 8000


def test_the_network_policy_lets_central_reach_servers_sidecars_and_the_api() -> None:
    (policy,) = of_kind(rendered(DEPLOY), "NetworkPolicy")
    open_ports = {
        tuple(sorted(rule["to"][0]["podSelector"]["matchLabels"].items())) if "to" in rule else (): {
            port["port"] for port in rule["ports"]
        }
        for rule in policy["spec"]["egress"]
        if rule["ports"][0]["port"] != 53
    }
    assert open_ports == {
        (("app", "vllm"), ("role", "prefill")): {8000, 9838},
        (("app", "vllm"), ("role", "decode")): {8000, 9838},
        (): {443, 6443},
    }


def test_each_board_is_a_labelled_map_small_enough_to_apply() -> None:
    maps = [one for one in of_kind(rendered(DEPLOY), "ConfigMap") if "grafana_dashboard" in one["metadata"]["labels"]]
    assert len(maps) == 8
    for one in maps:
        assert one["metadata"]["labels"] == {"grafana_dashboard": "1"}
        ((name, text),) = one["data"].items()
        assert text == (REPOSITORY / "dashboards" / name).read_text(encoding="utf-8")
        # `kubectl apply` keeps a copy of the object in an annotation of at most 256 KiB.
        assert len(json.dumps(one).encode()) < 200_000


def _containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", ()), *pod["containers"]]
