"""Pages beside the targets' own: NIXL's telemetry in the state, in what is said of a leak, and in recordings."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import Config, Pool, Target, config_from_names, load_config, masked
from agent.config.exporters import ExporterPage, exporter_pages
from agent.config.pools import Exporters
from agent.errors import ConfigError
from agent.model import FailureObservation, PageObservation
from agent.sources.http import targets_of
from agent.watch import Watch
from tests.indicators.memory.test_memory_watch import MB, Host, process
from tests.pages import counter, page

BEGIN = 1_800_000_000.0
CONFIG = Config(
    pools=(
        Pool(
            "decode",
            "decode",
            (Target("decode-0", "http://10.0.0.1:8000/metrics"), Target("decode-1", "http://10.0.0.2:8000/metrics")),
            exporters=Exporters(nixl=(Target("decode-0", "http://10.0.0.1:19090/metrics"),)),
        ),
    )
)


def nixl_page(transfers: int, registered: float, given_back: float) -> str:
    """After so many received transfers of 400 us and 1 MB each."""
    labels = {"agent_name": "a", "hostname": "h"}
    return page(
        counter("agent_tx_requests_num_total", 0, None, **labels),
        counter("agent_rx_requests_num_total", transfers, None, **labels),
        counter("agent_tx_bytes_total", 0, None, **labels),
        counter("agent_rx_bytes_total", transfers * 1_000_000, None, **labels),
        counter("agent_xfer_time_total", transfers * 400, None, **labels),
        counter("agent_xfer_post_time_total", transfers * 30, None, **labels),
        counter("agent_memory_registered_total", registered, None, **labels),
        counter("agent_memory_deregistered_total", given_back, None, **labels),
    )


def watched(*pages: str) -> Watch:
    """A page every ten seconds."""
    watch = Watch(CONFIG)
    for number, text in enumerate(pages):
        watch.observe(PageObservation(BEGIN + 10.0 * number, "decode-0/nixl", text))
    return watch


def test_transfers_are_seen_to_the_microsecond_with_memory_that_was_not_given_back():
    watch = watched(nixl_page(10, 1e9, 0.0), nixl_page(60, 1.5e9, 0.0), nixl_page(110, 3e9, 1e9))
    (found,) = watch.state(BEGIN + 20.0).exporters.values()
    assert (found.target, found.covered_s, found.age_s, found.error) == ("decode-0", 20.0, 0.0, None)
    moved = found.kv_transfer
    assert (moved.source, moved.transfers, moved.bytes) == ("nixl-agent", 100, 100_000_000)
    assert moved.time.mean == pytest.approx(400e-6)
    assert moved.post_time.mean == pytest.approx(30e-6)
    assert moved.registered_growth_bytes == 1_000_000_000
    assert watch.exporters.held_bytes("decode-0", BEGIN + 20.0) == (1e9, 20.0)
    assert watch.exporters.held_bytes("decode-1", BEGIN + 20.0) is None


def test_a_page_that_does_not_come_says_why_and_makes_no_number():
    watch = Watch(CONFIG)
    watch.observe(FailureObservation(BEGIN, "decode-0/nixl", "refused"))
    (found,) = watch.state(BEGIN + 1.0).exporters.values()
    assert (found.error, found.age_s, found.kv_transfer.transfers) == ("refused", None, None)
    assert watch.exporters.held_bytes("decode-0", BEGIN + 1.0) is None
    watch.observe(PageObservation(BEGIN + 2.0, "decode-0/nixl", "<html>nothing</html>\n"))
    (found,) = watch.state(BEGIN + 3.0).exporters.values()
    assert found.error == "unusable_page"


def test_a_server_that_restarted_leaks_nothing_by_its_counters_beginning_anew():
    watch = watched(nixl_page(10, 5e9, 0.0), nixl_page(20, 5e9, 0.0), nixl_page(1, 2e9, 0.0), nixl_page(2, 2e9, 0.0))
    (found,) = watch.state(BEGIN + 30.0).exporters.values()
    # Since the restart 2 GB were registered, in a process that had none before: that much it holds.
    assert found.kv_transfer.transfers == 12
    assert found.kv_transfer.registered_growth_bytes == 2_000_000_000


def test_these_pages_are_no_targets_and_are_forgotten_with_them():
    watch = watched(nixl_page(10, 0.0, 0.0))
    assert list(watch.state(BEGIN).pools["decode"].targets) == ["decode-0", "decode-1"]
    assert not watch.ignored
    (pool,) = CONFIG.pools
    watch.retarget(replace(CONFIG, pools=(replace(pool, exporters=Exporters()),)))
    assert watch.state(BEGIN).exporters == {}


def test_pages_are_named_by_target_or_found_on_a_port_and_fetched_beside_the_targets(tmp_path: Path):
    path = tmp_path / "pdwatch.yaml"
    path.write_text(
        "pools:\n"
        "  decode:\n"
        "    role: decode\n"
        "    targets: {decode-0: 'http://10.0.0.1:8000', decode-1: 'http://[::2]:8000'}\n"
        "    auth: {bearer_token: secret}\n"
        "    exporters: {nixl: {decode-0: 'http://10.0.0.9:19090'}, nixl_port: 19091}\n"
    )
    config = load_config(path, {})
    access = config.pools[0].access
    assert list(exporter_pages(config)) == [
        ExporterPage("decode-0/nixl", "decode-0", "http://10.0.0.9:19090/metrics", access),
        ExporterPage("decode-1/nixl", "decode-1", "http://[::2]:19091/metrics", access),
    ]
    assert [target.name for target, _ in targets_of(config)] == [
        "decode-0",
        "decode-1",
        "decode-0/nixl",
        "decode-1/nixl",
    ]
    assert masked(config)["pools"]["decode"]["exporters"]["nixl"] == {"decode-0": "http://10.0.0.9:19090/metrics"}


def test_a_page_of_no_target_is_refused(tmp_path: Path):
    path = tmp_path / "pdwatch.yaml"
    path.write_text(
        "pools: {d: {role: decode, targets: {d-0: 'http://h'}, exporters: {nixl: {d-1: 'http://h:19090'}}}}\n"
    )
    with pytest.raises(ConfigError, match="'d-1' is no target of this pool"):
        load_config(path, {})


def test_recorded_pages_are_taken_up_again_by_their_names():
    config = config_from_names({"decode-0", "decode-0/nixl", "prefill-0"})
    assert [target.name for pool in config.pools for target in pool.targets] == ["prefill-0", "decode-0"]
    assert [(page.name, page.url) for page in exporter_pages(config)] == [("decode-0/nixl", "")]


@pytest.mark.parametrize(
    ("held", "says"),
    [
        pytest.param(
            (3.0 * 2**30, 900.0),
            "; NIXL registered 3.0 GiB more than it gave back within the last 15 min, in all of this server",
            id="it holds memory",
        ),
        pytest.param((0.0, 900.0), "; NIXL gave back all memory that it registered within the last 15 min", id="none"),
        pytest.param(None, "", id="nobody tells"),
    ],
)
def test_a_leak_says_what_nixl_holds(held: tuple[float, float] | None, says: str):
    host = Host()
    host.watch.held_bytes = lambda _target, _now: held
    host.run(12 * 30, lambda hours: (process(41, 6_000 * MB + 200 * MB * hours),))
    (text,) = [text for key, text in host.said().items() if key.startswith("memory_leak")]
    assert says in text
    assert ("NIXL" in text) == bool(says)
