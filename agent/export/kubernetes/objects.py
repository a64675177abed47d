"""What all manifests have in common. In: kind, name, contents. Out: one object, or one file, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.export.rules.yaml_text import commented, dumped

NAME = "pdwatch"
MADE_BY = "Made by `pdwatch export kubernetes`; change it by an overlay, or change the configuration and export again."
CENTRAL_LABELS: Mapping[str, str] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "central"}


def manifest(
    api_version: str,
    kind: str,
    name: str = NAME,
    *,
    labels: Mapping[str, str] = CENTRAL_LABELS,
    **contents: object,
) -> dict[str, Any]:
    """An object of the API, without a namespace: kustomize or `kubectl -n` says where it goes."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **contents}


def document(*objects: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """A file of one or more objects, with a comment at its head."""
    return commented([*comments, MADE_BY]) + "---\n".join(dumped(value) for value in objects)


def kustomization(comments: Sequence[str] = (), *, component: bool = False, **fields: object) -> str:
    """A kustomization.yaml; as a component it is added to the kustomization of others."""
    head = (
        {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
        if component
        else {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    )
    return commented([*comments, MADE_BY]) + dumped(head | fields)
