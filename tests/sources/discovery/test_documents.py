"""Lists of file_sd and http_sd as they come from the world: taken whole or refused with a sentence, never half."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.discovery.documents import MOST_JSON_BYTES, MOST_TARGETS, MOST_YAML_BYTES, read_json, read_yaml
from agent.sources.discovery.found import DiscoveryError, Found, checked_address

GOOD = """
- targets: [10.0.0.9:8000]
  labels: {role: decode, pdwatch_target: decode-0, pdwatch_sidecar_port: 9838, rank: 0}
- targets: ["[2001:DB8::1]:8000", Host.Example:8001]
  labels: {__scheme__: https, __metrics_path__: /vllm/metrics}
"""


def refused(data: bytes) -> DiscoveryError:
    with pytest.raises(DiscoveryError) as caught:
        read_json(data, "list.json")
    assert len(caught.value.text) < 500
    assert caught.value.text.isprintable()
    return caught.value


def test_a_list_names_targets_by_label_or_by_address() -> None:
    first, second, third = read_yaml(GOOD.encode(), "list.yaml").targets
    assert (first.name, first.address, first.scheme) == ("[2001:db8::1]:8000", "[2001:db8::1]:8000", "https")
    assert (second.name, second.address, second.sidecar) == ("decode-0", "10.0.0.9:8000", "9838")
    assert dict(second.labels)["rank"] == "0"
    assert (third.name, third.path) == ("host.example:8001", "/vllm/metrics")


def test_json_and_yaml_say_the_same() -> None:
    groups = [{"targets": ["a:1", "b:2"], "labels": {"role": "decode"}}, {"targets": []}]
    text = json.dumps(groups).encode()
    assert read_json(text, "x").targets == read_yaml(text, "x").targets
    assert [target.name for target in read_json(text, "x").targets] == ["a:1", "b:2"]


def test_an_empty_list_is_a_good_one_and_an_empty_file_is_not() -> None:
    assert read_json(b"[]", "x").targets == read_yaml(b"[]", "x").targets == ()
    for empty in (b"", b"null", b"# nothing yet\n", b"{}"):
        with pytest.raises(DiscoveryError):
            read_yaml(empty, "x")
    assert refused(b"").word == "not_json"
    assert "empty list is written []" in refused(b"null").text


@pytest.mark.parametrize(
    "value",
    [
        {"targets": ["a:1"]},
        ["a:1"],
        [{"targets": "a:1"}],
        [{"targets": ["a:1"], "labels": []}],
        [{"targets": ["a:1"], "labels": {"role": 7}}],
        [{"targets": ["a:1"], "labels": {"role": None}}],
        [{"targets": [8000]}],
        [{"targets": [["a:1"]]}],
        [{"labels": {}}],
        [None],
        [{"targets": ["a:1", "b:1"], "labels": {"pdwatch_target": "one"}}],
        [
            {"targets": ["a:1"], "labels": {"pdwatch_target": "same"}},
            {"targets": ["b:1"], "labels": {"pdwatch_target": "same"}},
        ],
        [{"targets": ["a:1"], "labels": {"pdwatch_target": "a\u0007\u001b[2J"}}],
        [{"targets": ["a:1"], "labels": {"pdwatch_target": "a b"}}],
        [{"targets": ["a:1"], "labels": {"pdwatch_target": "a" * 254}}],
        [{"targets": ["a:1"], "labels": {"pdwatch_sidecar_port": "99999"}}],
        [{"targets": ["a:1"], "labels": {"__scheme__": "file"}}],
        [{"targets": ["a:1"], "labels": {"__metrics_path__": "/x?token=1"}}],
        [{"targets": ["a:1"], "labels": {str(n): "" for n in range(101)}}],
    ],
)
def test_what_is_wrong_in_one_place_refuses_the_whole(value: object) -> None:
    assert refused(json.dumps(value).encode()).word == "unusable"


@pytest.mark.parametrize(
    "address",
    [
        "http://a:8000", "a:8000/metrics", "user:secret@a:8000", "a", "a:", ":8000", "a:0", "a:65536", "a:8e3",
        "a:\u0668", "[::1]", "[zz]:1", "::1:8000:", "a b:1", "a\n:1", "a:1\n", "-a:1", "[::1%eth0/x]:1", "", "a:000001",
    ],
)  # fmt: skip
def test_an_address_is_host_and_port_and_nothing_else(address: str) -> None:
    error = refused(json.dumps([{"targets": [address]}]).encode())
    assert "secret" not in error.text


def test_hostile_documents_are_refused_in_bounded_time() -> None:
    assert refused(b"x" * (10 << 20)).word == "too_large"
    assert refused(b"[" * 100_000).word == "not_json"
    assert refused(b"\xff\xfe\x00").word == "not_text"
    many = json.dumps([{"targets": [f"h{n}:1" for n in range(MOST_TARGETS + 1)]}]).encode()
    assert len(many) < MOST_JSON_BYTES
    assert refused(many).word == "too_many"
    for yaml in (b"[" * 5000, b"x" * (MOST_YAML_BYTES + 1), b"a: &a [*a]", b"- targets: [a:1]\n  targets: [b:1]\n"):
        with pytest.raises(DiscoveryError):
            read_yaml(yaml, "x")
    bomb = "\n".join(["a: &a0 [x, x]", *(f"b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))])
    with pytest.raises(DiscoveryError):
        read_yaml(bomb.encode(), "x")


def test_every_beginning_of_a_json_file_is_refused_but_the_whole() -> None:
    text = json.dumps([{"targets": ["a:1"], "labels": {"role": "decode"}}, {"targets": ["b:1"]}]).encode()
    for end in range(len(text)):
        refused(text[:end])
    assert len(read_json(text, "x").targets) == 2


@given(st.binary(max_size=200))
def test_bytes_are_a_list_or_an_error_and_nothing_else(data: bytes) -> None:
    for read in (read_json, read_yaml):
        try:
            listing = read(data, "x")
        except DiscoveryError:
            continue
        assert all(isinstance(target, Found) for target in listing.targets)


@given(st.text(max_size=40))
def test_an_accepted_address_is_accepted_again_as_it_is_written(text: str) -> None:
    try:
        address = checked_address(text)
    except ValueError:
        return
    assert checked_address(address) == address
