"""Kubernetes pods, from a server that speaks like the API: pages, tokens, errors, and pods in every state."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.config import Kubernetes
from agent.sources.discovery.found import DiscoveryError
from agent.sources.discovery.pods import PodLists

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def pod(name: str, ip: str | None = "10.1.0.1", ready: bool = True, **more: Any) -> dict[str, Any]:
    """A running pod as the API gives it."""
    condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": more.get("changed", "2027-01-15T07:00:00Z"),
    }
    return {
        "metadata": {
            "name": name,
            "labels": more.get("labels", {"role": "decode"}),
            **({"deletionTimestamp": more["deleted"]} if "deleted" in more else {}),
        },
        "spec": {
            "containers": [{"name": "vllm", "ports": more.get("ports", [{"name": "http", "containerPort": 8000}])}]
        },
        "status": {
            "phase": more.get("phase", "Running"),
            **({"podIP": ip} if ip is not None else {}),
            "conditions": [condition],
            "containerStatuses": [{"state": {"running": {"startedAt": more.get("started", "2027-01-15T07:30:00Z")}}}],
        },
    }


class Api:
    """`pods` in pages of `page`; `fails`: statuses to answer with before that, one per request."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.page = 250
        self.fails: list[int] = []
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization", ""))
        status = self.fails.pop(0) if self.fails else 0
        if status:
            return web.json_response({"kind": "Status", "code": status}, status=status)
        begin = int(request.query.get("continue", "0"))
        end = begin + self.page
        following = {"continue": str(end)} if end < len(self.pods) else {}
        body = {"kind": "PodList", "metadata": {"resourceVersion": "7", **following}, "items": self.pods[begin:end]}
        return web.json_response(body)


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, Callable[..., PodLists]]]:
    served = Api()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods", served.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:

        def lists(port: str = "http", account: Path = Path("/nowhere"), **settings: Any) -> PodLists:
            config = Kubernetes(port, "app=vllm,role in (decode)", "ns", api_url=str(server.make_url("/")), **settings)
            return PodLists(config, session, account, {})

        yield served, lists


Made = tuple[Api, Callable[..., PodLists]]


async def test_a_ready_pod_is_a_target_by_its_name_with_its_labels(api: Made) -> None:
    served, lists = api
    served.pods = [pod("decode-1", "10.1.0.2", labels={"role": "decode", "n": 7}), pod("decode-0", "fd00::5")]
    first, second = (await lists().look(NOW)).targets
    assert (first.name, first.address) == ("decode-0", "[fd00::5]:8000")
    assert (second.address, dict(second.labels)) == ("10.1.0.2:8000", {"role": "decode"})
    assert served.asked[0]["labelSelector"] == "app=vllm,role in (decode)"


async def test_a_pod_joins_when_it_is_first_ready_and_stays_when_it_hangs(api: Made) -> None:
    served, made = api
    lists = made()
    served.pods = [pod("decode-0", ready=False)]
    assert (await lists.look(NOW)).targets == ()
    served.pods = [pod("decode-0")]
    assert len((await lists.look(NOW)).targets) == 1
    served.pods = [pod("decode-0", ready=False)]
    assert len((await lists.look(NOW)).targets) == 1
    served.pods = []
    assert (await lists.look(NOW)).targets == ()


async def test_a_pod_that_lost_its_readiness_before_pdwatch_came_is_watched(api: Made) -> None:
    served, lists = api
    served.pods = [pod("hangs", ready=False, changed="2027-01-15T07:50:00Z"), pod("loads", ready=False)]
    assert [target.name for target in (await lists().look(NOW)).targets] == ["hangs"]


async def test_the_same_name_with_another_address_is_the_same_target(api: Made) -> None:
    served, made = api
    lists = made()
    served.pods = [pod("decode-0", "10.1.0.1")]
    await lists.look(NOW)
    served.pods = [pod("decode-0", None, ready=False)]
    assert (await lists.look(NOW)).targets[0].address == "10.1.0.1:8000"
    served.pods = [pod("decode-0", "10.1.0.9", ready=False)]
    assert (await lists.look(NOW)).targets[0].address == "10.1.0.9:8000"


async def test_pods_that_are_over_or_have_no_address_are_no_targets(api: Made) -> None:
    served, lists = api
    served.pods = [
        pod("done", phase="Succeeded"),
        pod("failed", phase="Failed"),
        pod("pending", None),
        pod("draining", deleted="2027-01-15T08:00:30Z"),
        pod("killed", deleted="2027-01-15T07:59:30Z"),
    ]
    assert [target.name for target in (await lists().look(NOW)).targets] == ["draining"]


async def test_a_port_is_found_by_number_or_by_name_and_a_pod_without_it_is_said(api: Made) -> None:
    served, lists = api
    served.pods = [pod("a"), pod("b", ports=[{"name": "other", "containerPort": 1}]), pod("c", ports=[])]
    assert len((await lists("8100").look(NOW)).targets) == 3
    listing = await lists("http").look(NOW)
    assert [target.name for target in listing.targets] == ["a"]
    assert len(listing.notes) == 2
    assert "has no container port called 'http'" in listing.notes[0]


async def test_all_pages_make_one_list(api: Made) -> None:
    served, lists = api
    served.page = 2
    served.pods = [pod(f"decode-{n}", f"10.1.0.{n}") for n in range(5)]
    assert len((await lists().look(NOW)).targets) == 5
    assert [asked.get("continue") for asked in served.asked] == [None, "2", "4"]


async def test_pages_that_have_grown_too_old_are_asked_for_once_more_from_the_first(api: Made) -> None:
    served, lists = api
    served.page = 2
    served.pods = [pod(f"decode-{n}", f"10.1.0.{n}") for n in range(3)]
    served.fails = [0, 410]
    assert len((await lists().look(NOW)).targets) == 3
    served.fails = [410, 410]
    with pytest.raises(DiscoveryError, match="http_410"):
        await lists().look(NOW)


@pytest.mark.parametrize(
    ("status", "said"), [(401, "token is not accepted"), (403, "may not list pods"), (500, "http_500")]
)
async def test_a_refusal_is_a_failure_with_a_word_of_help(status: int, said: str, api: Made) -> None:
    served, lists = api
    served.fails = [status]
    with pytest.raises(DiscoveryError, match=said):
        await lists().look(NOW)


async def test_a_rotated_token_is_read_again(api: Made, tmp_path: Path) -> None:
    served, made = api
    token = tmp_path / "token"
    token.write_text("first", encoding="utf-8")
    lists = made(token_file=str(token))
    served.fails = [401]
    with pytest.raises(DiscoveryError):
        await lists.look(NOW)
    token.write_text("second one", encoding="utf-8")
    await lists.look(NOW)
    assert served.tokens == ["Bearer first", "Bearer second one"]


async def test_inside_a_cluster_everything_is_known_from_the_account(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("vllm\n", encoding="utf-8")
    async with aiohttp.ClientSession() as session:
        lists = PodLists(Kubernetes("8000"), session, tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1"})
        assert (lists._base(), lists._namespace()) == ("https://[fd00::1]:443", "vllm")
        with pytest.raises(DiscoveryError, match="token: cannot be read"):
            await lists.look(NOW)
        outside = PodLists(Kubernetes("8000"), session, tmp_path, {})
        with pytest.raises(DiscoveryError, match="not inside a cluster"):
            await outside.look(NOW)


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"kind": "PodList", "items": {}}', '{"kind": "Status"}', "[" * 100_000, "", '{"items": [1]}']
)
async def test_an_answer_of_another_form_is_a_failure(body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body)

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        config = Kubernetes("8000", "", "ns", api_url=str(server.make_url("")))
        with pytest.raises(DiscoveryError):
            await PodLists(config, session).look(NOW)


async def test_a_pod_of_any_form_never_ends_the_look(api: Made) -> None:
    served, lists = api
    odd: list[Any] = [None, 7, [], {}, {"metadata": 1}, pod("a b"), pod("x", "not an address"), pod("y", "1.2.3.4/8")]
    odd += [{"metadata": {"name": "z"}, "status": {"podIP": "10.0.0.1", "conditions": [1, {"type": "Ready"}]}}]
    odd += [pod("late", deleted="0000-99-99"), pod("far", deleted="9999-12-31T23:59:59Z")]
    served.pods = odd
    listing = await lists().look(NOW)
    assert [target.name for target in listing.targets] == ["far", "late"]
    assert len(listing.notes) == 8
