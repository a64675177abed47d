"""Recorded names and pools that find their targets."""

from typing import Literal

from agent.config import Config, Discovery, FileSd, Pool, Target, config_with_recorded

FILES = Discovery(file_sd=FileSd(("list.json",)))


def finding(name: str, role: Literal["prefill", "decode", "both"]) -> Pool:
    return Pool(name=name, role=role, discovery=FILES)


def names(config: Config) -> dict[str, list[str]]:
    return {pool.name: [target.name for target in pool.targets] for pool in config.pools}


def test_a_recorded_name_belongs_to_the_pool_whose_name_or_role_is_in_it() -> None:
    config = Config(pools=(finding("prefill", "prefill"), finding("large-decode", "decode")))
    recorded = ["vllm-prefill-0", "large-decode-1", "vllm.decode_2", "other-3", "prefiller-4"]
    assert names(config_with_recorded(config, recorded)) == {
        "prefill": ["vllm-prefill-0"],
        "large-decode": ["large-decode-1", "vllm.decode_2"],
    }


def test_what_fits_several_pools_fits_none() -> None:
    config = Config(pools=(finding("a", "decode"), finding("b", "decode")))
    assert names(config_with_recorded(config, ["decode-0", "a-1"])) == {"a": ["a-1"], "b": []}


def test_pools_that_list_their_targets_stay_as_they_are() -> None:
    fixed = Config(pools=(Pool(name="decode", role="decode", targets=(Target("decode-0", "http://h"),)),))
    assert config_with_recorded(fixed, ["decode-1"]) is fixed
    both = Config(pools=(*fixed.pools, finding("decode-more", "decode")))
    assert names(config_with_recorded(both, ["decode-0", "decode-more-1"])) == {
        "decode": ["decode-0"],
        "decode-more": ["decode-more-1"],
    }
