"""Budgets of vLLM's caches from its command line: what is set, what is on by default, what is not in bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cache_budgets import CacheBudget, cache_budgets, growth_budget_bytes

GIB = 1 << 30


def budgets(options: str, environment: dict[str, str] | None = None) -> dict[str, CacheBudget]:
    found = cache_budgets(["vllm", "serve", "m", *options.split()], environment)
    return {budget.name: budget for budget in found}


def with_connector(environment: dict[str, str] | None = None, **config: object) -> dict[str, CacheBudget]:
    command_line = ["vllm", "serve", "m", "--kv-transfer-config", json.dumps(config)]
    return {budget.name: budget for budget in cache_budgets(command_line, environment)}


def test_the_multi_modal_cache_is_on_by_default_but_not_declared() -> None:
    cache = budgets("")["multi_modal_processor_cache"]
    assert (cache.size_bytes, cache.declared, cache.where) == (4 * GIB, False, "anon")
    assert growth_budget_bytes([cache], "engine_core") == 0
    assert growth_budget_bytes([cache], "engine_core", assume_defaults=True) == 4 * GIB
    assert growth_budget_bytes([cache], "worker", assume_defaults=True) == 0


def test_a_declared_multi_modal_cache_counts_in_each_api_process_and_engine_core() -> None:
    found = budgets("--mm-processor-cache-gb 2.5").values()
    assert [growth_budget_bytes(found, kind) for kind in ("api_server", "engine_core", "worker")] == [
        2.5 * GIB,
        2.5 * GIB,
        0,
    ]


@pytest.mark.parametrize("options", ["--mm-processor-cache-gb 0", "--mm_processor_cache_gb=0", "--language-model-only"])
def test_a_multi_modal_cache_that_is_off_has_no_budget(options: str) -> None:
    assert "multi_modal_processor_cache" not in budgets(options)


def test_a_shared_multi_modal_cache_excuses_no_anonymous_growth() -> None:
    cache = budgets("--mm-processor-cache-gb 8 --mm-processor-cache-type shm")["multi_modal_processor_cache"]
    assert cache.where == "shmem"
    assert growth_budget_bytes([cache], "engine_core") == 0


def test_kv_offloading_is_shared_memory_of_the_workers() -> None:
    assert budgets("--kv-offloading-size 64")["kv_offloading"] == CacheBudget(
        "kv_offloading", 64 * GIB, ("engine_core", "worker"), "shmem", True
    )


def test_the_offloading_connector_states_bytes_blocks_or_nothing() -> None:
    extra = {"cpu_bytes_to_use": 8589934592}
    found = with_connector(kv_connector="OffloadingConnector", kv_connector_extra_config=extra)
    assert found["kv_offloading"].size_bytes == 8 * GIB
    found = with_connector(kv_connector="OffloadingConnector", kv_connector_extra_config={"num_cpu_blocks": 1000})
    assert found["kv_offloading"].size_bytes is None
    assert "kv_offloading" not in with_connector(kv_connector="NixlConnector", kv_role="kv_consumer")


@pytest.mark.parametrize(("number", "size"), [("80m", 80_000_000), ("2G", 2 * GIB), ("1.5k", 1500), ("7", 7)])
def test_numbers_with_a_suffix_are_read_as_vllm_reads_them(number: str, size: int) -> None:
    config = '{"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": %s}}'
    found = cache_budgets(["vllm", "serve", "8g", "--kv-transfer-config", config % number])
    assert found[-1].size_bytes == size


def test_the_simple_offload_connector_takes_its_memory_at_start() -> None:
    cache = with_connector(kv_connector="SimpleCPUOffloadConnector")["kv_offloading"]
    assert (cache.size_bytes, cache.where) == (8 * GIB, "at_start")


def test_blocks_that_lmcaches_own_server_keeps_are_in_no_process_of_ours() -> None:
    assert "kv_offloading" not in budgets("--kv-offloading-size 64 --kv-offloading-backend lmcache")
    assert set(with_connector(kv_connector="LMCacheMPConnector")) == {"multi_modal_processor_cache"}


def test_connectors_inside_a_multi_connector_are_found() -> None:
    inner = [
        {"kv_connector": "NixlConnector"},
        {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": 100}},
        {"kv_connector": "LMCacheConnectorV1"},
    ]
    found = with_connector(
        {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"},
        kv_connector="MultiConnector",
        kv_connector_extra_config={"connectors": inner},
    )
    assert found["kv_offloading"].size_bytes == 100
    assert found["lmcache_local_cpu"].size_bytes == 20 * GIB


def test_the_dotted_form_of_the_connectors_configuration_is_read() -> None:
    option = "--kv-transfer-config"
    found = budgets(
        f"{option}.kv_connector OffloadingConnector {option}.kv_connector_extra_config.cpu_bytes_to_use=4096"
    )
    assert found["kv_offloading"].size_bytes == 4096
    found = budgets(
        f"{option}.kv_connector LMCacheConnectorV1 {option}.kv_connector_extra_config.lmcache.max_local_cpu_size 3"
    )
    assert found["lmcache_local_cpu"].size_bytes == 3 * GIB


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        (None, None),
        ({}, None),
        ({"LMCACHE_MAX_LOCAL_CPU_SIZE": "5.5"}, int(5.5 * GIB)),
        ({"LMCACHE_MAX_LOCAL_CPU_SIZE": "lots"}, None),
        ({"LMCACHE_CONFIG_FILE": "/c.yaml", "LMCACHE_MAX_LOCAL_CPU_SIZE": "5"}, None),
    ],
)
def test_lmcache_has_a_budget_whose_size_may_be_unknown(environment: dict[str, str] | None, size: int | None) -> None:
    found = with_connector(environment, kv_connector="LMCacheConnectorV1")
    assert found["lmcache_local_cpu"].size_bytes == size
    assert growth_budget_bytes(found.values(), "worker") == size


def test_lmcache_without_a_cpu_tier_has_none() -> None:
    assert "lmcache_local_cpu" not in with_connector({"LMCACHE_LOCAL_CPU": "False"}, kv_connector="LMCacheConnectorV1")


def test_swap_space_is_taken_at_start_and_excuses_no_growth() -> None:
    found = budgets("--swap-space 16 --mm-processor-cache-gb 0")
    assert (found["swap_space"].size_bytes, found["swap_space"].where) == (16 * GIB, "at_start")
    assert growth_budget_bytes(found.values(), "worker") == 0


def test_another_programs_command_line_has_no_caches() -> None:
    assert cache_budgets(["python", "serve.py", "--kv-offloading-size", "64"]) == []
    assert cache_budgets([]) == []


@given(st.text(), st.text())
def test_any_configuration_is_read_without_a_crash_and_never_negative(config: str, size: str) -> None:
    found = cache_budgets(["vllm", "serve", "m", "--kv-transfer-config", config, "--kv-offloading-size", size])
    assert all(budget.size_bytes is None or budget.size_bytes >= 0 for budget in found)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["connectors", "kv_connector", "kv_connector_extra_config", "cpu_bytes_to_use"]), inner
            )
        ),
    )
)
def test_any_json_is_read_without_a_crash(config: object) -> None:
    cache_budgets(["vllm", "serve", "m", "--kv-transfer-config", json.dumps(config)])
