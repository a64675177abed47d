"""Kubernetes: pods by label. In: the API server, asked every few seconds. Out: one `Listing` for each complete list.

A list is asked for whole and consistent, so that a pod that is gone is gone and nothing has to be remembered between
two answers. A pod becomes a target when it is ready for the first time, and stays one while it exists: a server that
hangs fails its readiness probe, and that is when it has to be watched.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from agent.config import Access, Auth, Kubernetes, Tls
from agent.sources.discovery.found import DiscoveryError, Found, Listing, found, shown
from agent.sources.http_access import AccessKeeper
from agent.sources.http_fetch import FetchError, fetch_page

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 10.0
PODS_IN_A_PAGE = 250
MOST_PAGE_BYTES = 32 << 20
MOST_PAGES = 20
ENDED = ("Succeeded", "Failed")


class PodLists:
    """Lists the pods of one configuration. `account`: the service account's folder; `environ`: where the API is."""

    def __init__(
        self,
        config: Kubernetes,
        session: aiohttp.ClientSession,
        account: Path = ACCOUNT,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._config = config
        self._session = session
        self._account = account
        self._environ = environ
        token = config.token_file or str(account / "token")
        ca = config.ca_file or (str(account / "ca.crt") if config.api_url is None else None)
        has_token = config.token_file is not None or config.api_url is None
        self._keeper = AccessKeeper(Access(Auth(bearer_token_file=token) if has_token else Auth(), Tls(ca_file=ca)))
        self._known: dict[str, Found] = {}

    async def look(self, now: float) -> Listing:
        """The pods at `now` (unix seconds). Raises DiscoveryError; one page of a list is never taken for the whole."""
        pods = await self._all_pods()
        targets: dict[str, Found] = {}
        notes: list[str] = []
        for pod in pods:
            try:
                target = pod_target(pod, self._config.port, self._known, now)
            except ValueError as error:
                notes.append(str(error))
                continue
            if target is not None:
                targets[target.name] = target
        self._known = targets
        return Listing(tuple(sorted(targets.values(), key=lambda target: target.name)), tuple(notes))

    async def _all_pods(self) -> list[Any]:
        try:
            return await self._pages()
        except DiscoveryError as error:
            if error.word != "http_410":
                raise
            return await self._pages()  # the pages that were left are too old by now: once more from the first

    async def _pages(self) -> list[Any]:
        pods: list[Any] = []
        following = ""
        for _ in range(MOST_PAGES):
            data = await self._page(following)
            items, metadata = data.get("items"), data.get("metadata")
            if data.get("kind") != "PodList" or not isinstance(items, list) or not isinstance(metadata, dict):
                # An empty PodList has `items: []` or null.
                if not (data.get("kind") == "PodList" and items is None and isinstance(metadata, dict)):
                    raise DiscoveryError("unusable", "the API server answered with something that is no list of pods")
                items = []
            pods += items
            following = metadata.get("continue") or ""
            if not following:
                return pods
        raise DiscoveryError("too_many", f"more than {MOST_PAGES * PODS_IN_A_PAGE} pods; narrow the selector")

    async def _page(self, following: str) -> dict[str, Any]:
        asked = {"limit": str(PODS_IN_A_PAGE)}
        if self._config.selector:
            asked["labelSelector"] = self._config.selector
        if following:
            asked["continue"] = str(following)
        url = f"{self._base()}/api/v1/namespaces/{quote(self._namespace(), safe='')}/pods?{urlencode(asked)}"
        try:
            page = await fetch_page(self._session, url, self._keeper, TIMEOUT_SECONDS, MOST_PAGE_BYTES)
        except FetchError as error:
            raise DiscoveryError(
                error.word, f"API server: {error.word}: {error.text}{_HELP.get(error.word, '')}"
            ) from None
        try:
            data = await asyncio.to_thread(json.loads, page.text)
        except (ValueError, RecursionError):
            raise DiscoveryError("not_json", "the API server's answer is not JSON") from None
        return data if isinstance(data, dict) else {}

    def _base(self) -> str:
        if self._config.api_url is not None:
            return self._config.api_url.rstrip("/")
        host, port = self._environ.get("KUBERNETES_SERVICE_HOST"), self._environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            text = "not inside a cluster (KUBERNETES_SERVICE_HOST is not set): give api_url, token_file and ca_file"
            raise DiscoveryError("no_cluster", text)
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def _namespace(self) -> str:
        if self._config.namespace is not None:
            return self._config.namespace
        try:
            return (self._account / "namespace").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise DiscoveryError(
                "no_cluster", f"{self._account / 'namespace'}: cannot be read: give namespace"
            ) from None


_HELP: Mapping[str, str] = {
    "http_401": "; the token is not accepted",
    "http_403": "; the service account may not list pods: give it get and list on pods",
}


def pod_target(pod: Any, port: str, known: Mapping[str, Found], now: float) -> Found | None:
    """The target that a pod is; None for one that is over, not started, or never was ready.

    Raises ValueError with a sentence for a pod that should be a target and cannot be one.
    """
    metadata, spec, status = (_part(pod, name) for name in ("metadata", "spec", "status"))
    name, address = metadata.get("name"), status.get("podIP")
    if not isinstance(name, str) or not name:
        raise ValueError("a pod without a name is left out")
    if status.get("phase") in ENDED or _is_over(metadata, now):
        return None
    before = known.get(name)
    if not isinstance(address, str) or not address:
        return before  # a moment without an address: it is the one it was, or none yet
    if before is None and not _was_ready(status):
        return None
    number = _port_number(spec, port)
    if number is None:
        raise ValueError(f"pod {shown(name)} has no container port called {shown(port)} and is left out")
    labels = metadata.get("labels")
    texts = {key: text for key, text in labels.items() if isinstance(text, str)} if isinstance(labels, dict) else {}
    host = f"[{address}]" if ":" in address else address
    try:
        return found(f"{host}:{number}", texts, name)
    except ValueError as error:
        raise ValueError(f"pod {shown(name)} is left out: {error}") from None


def _part(pod: Any, name: str) -> dict[str, Any]:
    part = pod.get(name) if isinstance(pod, dict) else None
    return part if isinstance(part, dict) else {}


def _is_over(metadata: Mapping[str, Any], now: float) -> bool:
    """Being deleted, and past the moment at which it is killed at the latest."""
    deadline = _moment(metadata.get("deletionTimestamp"))
    return deadline is not None and now > deadline


def _was_ready(status: Mapping[str, Any]) -> bool:
    """Ready now, or it lost its readiness since its containers started (which says that it had it)."""
    for condition in _parts(status.get("conditions")):
        if condition.get("type") == "Ready":
            if condition.get("status") == "True":
                return True
            changed = _moment(condition.get("lastTransitionTime"))
            started = [_started(container) for container in _parts(status.get("containerStatuses"))]
            known = [moment for moment in started if moment is not None]
            return changed is not None and bool(known) and len(known) == len(started) and changed > max(known) + 1.0
    return False


def _started(container: Mapping[str, Any]) -> float | None:
    return _moment(_part(_part(container, "state"), "running").get("startedAt"))


def _port_number(spec: Mapping[str, Any], port: str) -> int | None:
    if port.isdigit():
        return int(port)
    for container in (*_parts(spec.get("containers")), *_parts(spec.get("initContainers"))):
        for offered in _parts(container.get("ports")):
            number = offered.get("containerPort")
            if offered.get("name") == port and isinstance(number, int) and not isinstance(number, bool):
                return number
    return None


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    return (part for part in value if isinstance(part, dict)) if isinstance(value, list) else iter(())


def _moment(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
