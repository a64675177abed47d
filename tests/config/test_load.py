"""From a file, the environment and flags to one configuration, or to one line that says what is wrong and where."""

import dataclasses
from pathlib import Path

import pytest

from agent.config import (
    Config,
    Objective,
    Pool,
    Router,
    Target,
    config_from_flags,
    config_from_names,
    load_config,
    unknown_variables,
)
from agent.errors import ConfigError

# Everything that can be said in few words, each at its default.
WHOLE = """
deployment: glm-prod
mode: central
pools:
  prefill:
    role: prefill
    gpus_per_target: 4
    targets: {prefill-0: "http://10.0.0.1:8000", prefill-1: "http://10.0.0.2:8000"}
  decode:  {role: decode,  gpus_per_target: 8, targets: {decode-0: "http://10.0.0.9:8000"}}
router: null
dispatch: serial
scrape: {interval: 5s, timeout: 4s}
contract: {prompt_tokens: [16384, 262144]}
objectives:
  - {name: ttft, indicator: ttft, scope: system, statistic: mean, target: 2.5s,
     window: 5m, min_requests: 20, hold: 2m, clear: 5m, clear_below: 0.95}
  - {name: tpot, indicator: tpot, scope: decode, statistic: mean, target: 20ms,
     window: 5m, min_requests: 20, hold: 2m, clear: 5m, clear_below: 0.95}
memory: {page_within: 7d, cache_budget: null}
alerting:
  path: direct
  labels: {}
  alertmanagers: []
  webhooks: []
  pagerduty: null
  slack: null
  mute: []
links: {runbooks: null, dashboards: null}
state_dir: null
"""

SMALL = "pools: {decode: {role: decode, targets: {decode-0: http://h:8000}}}\n"


@pytest.fixture
def load(tmp_path):
    """Loads a text as a file named pdwatch.yaml."""

    def load(text: str, environ=None, overrides=None, **flags) -> Config:
        file = tmp_path / "pdwatch.yaml"
        file.write_text(text, encoding="utf-8")
        return load_config(file, environ or {}, overrides, **flags)

    return load


@pytest.fixture
def error(load, tmp_path):
    """The error of a text, without the folder in front of the file's name."""

    def error(text: str, environ=None, overrides=None, **flags) -> str:
        with pytest.raises(ConfigError) as raised:
            load(text, environ, overrides, **flags)
        message = str(raised.value)
        assert "\n" not in message
        return message.removeprefix(f"{tmp_path}/")

    return error


def test_the_whole_configuration_is_read_and_its_values_are_in_base_units(load, tmp_path):
    config = load(WHOLE)
    prefill, decode = config.pools
    assert prefill == Pool(
        name="prefill",
        role="prefill",
        gpus_per_target=4,
        targets=(
            Target("prefill-0", "http://10.0.0.1:8000/metrics"),
            Target("prefill-1", "http://10.0.0.2:8000/metrics"),
        ),
    )
    assert (decode.role, decode.gpus_per_target) == ("decode", 8)
    assert config.deployment == "glm-prod"
    assert config.router is None
    assert (config.scrape.interval_seconds, config.scrape.timeout_seconds) == (5.0, 4.0)
    assert config.contract.prompt_tokens == (16384, 262144)
    assert config.memory.page_within_seconds == 604800.0
    assert config.memory.cache_budget_bytes is None
    assert config.listen == "127.0.0.1:9838"
    assert config.file == str(tmp_path / "pdwatch.yaml")


def test_what_the_example_writes_out_is_what_holds_without_it(load):
    assert dataclasses.replace(load(WHOLE), deployment=None, pools=()) == dataclasses.replace(
        load(SMALL), deployment=None, pools=()
    )


def test_a_list_of_urls_names_its_targets_by_host_and_port(load):
    config = load("pools: {d: {role: decode, targets: ['http://a:8000', 'https://b', 'http://[::1]:9/x?y=1']}}")
    assert config.pools[0].targets == (
        Target("a:8000", "http://a:8000/metrics"),
        Target("b:443", "https://b/metrics"),
        Target("[::1]:9", "http://[::1]:9/x?y=1"),
    )


@pytest.mark.parametrize("url", ["http://h:8000", "http://h:8000/", "http://h:8000/metrics", "http://h:8000/metrics/"])
def test_a_target_without_a_path_and_one_with_a_slash_behind_it_get_the_metrics_page(load, url):
    config = load(f"pools: {{d: {{role: decode, targets: [{url}]}}}}")
    assert config.pools[0].targets[0].url == "http://h:8000/metrics"


# -- default objectives ---------------------------------------------------------------------------------------------


def tpot_scopes(config: Config) -> list[tuple[str, str]]:
    return [(objective.name, objective.scope) for objective in config.objectives if objective.indicator == "tpot"]


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ({"decode": "decode", "prefill": "prefill"}, [("tpot", "decode")]),
        ({"d": "decode", "prefill": "prefill"}, [("tpot", "d")]),
        ({"decode": "decode", "long": "decode"}, [("tpot", "decode"), ("tpot-long", "long")]),
        ({"a": "decode", "b": "decode"}, [("tpot-a", "a"), ("tpot-b", "b")]),
        ({"all": "both"}, [("tpot", "all")]),
        ({"d": "decode", "all": "both"}, [("tpot", "d")]),
        ({"prefill": "prefill"}, []),
    ],
)
def test_the_default_tpot_objective_is_scoped_to_the_pools_that_decode(load, pools, expected):
    text = "pools:\n" + "".join(
        f"  {name}: {{role: {role}, targets: [http://{name}]}}\n" for name, role in pools.items()
    )
    config = load(text)
    assert tpot_scopes(config) == expected
    assert config.objectives[0] == Objective(indicator="ttft", scope="system", target=2.5)


def test_an_empty_list_of_objectives_means_none(load):
    assert load(SMALL + "objectives: []").objectives == ()


def test_an_objective_of_shares_carries_its_promise_and_more_acceptance_is_better(load):
    config = load(
        SMALL
        + "objectives:\n"
        + "- {indicator: ttft, scope: system, statistic: share, target: 5s,"
        + " objective: 0.95, window: 3d, certainty: likely}\n"
        + "- {indicator: acceptance_length, scope: decode, target: 1.8}\n"
        + "- {indicator: errors, scope: system, target: 0.01}\n"
    )
    share, acceptance, errors = config.objectives
    assert (share.objective_ratio, share.window_seconds, share.certainty) == (0.95, 259200.0, "likely")
    assert (acceptance.unit, acceptance.higher_is_better, acceptance.name) == ("tokens", True, "acceptance_length")
    assert (errors.unit, errors.higher_is_better) == ("ratio", False)


# -- precedence -----------------------------------------------------------------------------------------------------


def test_a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default(load):
    text = SMALL + "listen: file:1\nscrape: {interval: 10s, timeout: 2s}\n"
    assert load(SMALL).listen == "127.0.0.1:9838"
    assert load(text).listen == "file:1"
    assert load(text, {"PDWATCH_LISTEN": "environ:2"}).listen == "environ:2"
    assert load(text, {"PDWATCH_LISTEN": "environ:2"}, {"listen": "flag:3"}).listen == "flag:3"
    both = load(text, {"PDWATCH_SCRAPE_INTERVAL": "7"})
    assert (both.scrape.interval_seconds, both.scrape.timeout_seconds) == (7.0, 2.0)


def test_an_empty_variable_counts_as_not_given(load):
    assert load(SMALL + "deployment: a", {"PDWATCH_DEPLOYMENT": ""}).deployment == "a"


def test_lists_and_mappings_come_from_the_environment_as_one_line_of_yaml(load):
    config = load(
        SMALL + "deployment: d",
        {
            "PDWATCH_POOLS": "{p: {role: both, targets: [http://x]}}",
            "PDWATCH_CONTRACT_PROMPT_TOKENS": "[1, 2]",
            "PDWATCH_ALERTING_ALERTMANAGERS": "http://a:9093, http://b:9093",
            "PDWATCH_ALERTING_LABELS": "{site: b}",
            "PDWATCH_ROUTER_KIND": "dynamo",
            "PDWATCH_ROUTER_TARGETS": "{router-0: http://r}",
        },
    )
    assert [pool.name for pool in config.pools] == ["p"]
    assert config.contract.prompt_tokens == (1, 2)
    assert [manager.url for manager in config.alerting.alertmanagers] == ["http://a:9093", "http://b:9093"]
    assert config.alerting.labels == (("site", "b"),)
    assert config.router == Router(kind="dynamo", targets=(Target("router-0", "http://r/metrics"),))


def test_references_in_the_file_are_replaced_and_cannot_add_keys(load):
    config = load(SMALL + "deployment: ${SITE:-lab}-${NAME}", {"NAME": "a: {b: c}"})
    assert config.deployment == "lab-a: {b: c}"


def test_text_stays_as_it_was_written_although_yaml_would_read_something_else(load):
    for text in ("no", "1.10", "2026-01-01", "0123", "12:30", "1e3", "'null'"):
        assert load(SMALL + f"deployment: {text}").deployment == text.strip("'")


def test_an_anchor_may_be_merged_and_overridden(load):
    config = load(
        "pools:\n"
        "  a: &a {role: decode, gpus_per_target: 4, targets: [http://a]}\n"
        "  b: {<<: *a, gpus_per_target: 8, targets: [http://b]}\n"
    )
    assert [(pool.role, pool.gpus_per_target) for pool in config.pools] == [("decode", 4), ("decode", 8)]


def test_paths_of_a_file_start_from_its_folder_and_those_of_the_environment_from_the_current_one(load, tmp_path):
    config = load(
        SMALL.replace("}}}", "}, auth: {bearer_token_file: token}, tls: {ca_file: /etc/ca.pem}}}"),
        {"PDWATCH_STATE_DIR": "state"},
    )
    assert config.pools[0].auth.bearer_token_file == str(tmp_path / "token")
    assert config.pools[0].tls.ca_file == "/etc/ca.pem"
    assert config.state_dir == "state"


def test_a_short_interval_shortens_the_default_timeout(load):
    assert load(SMALL + "scrape: {interval: 1s}").scrape.timeout_seconds == 0.8


# -- flags and names ------------------------------------------------------------------------------------------------


def test_flags_alone_make_pools_and_a_router():
    config = config_from_flags(["http://p:1"], ["http://d:1", "http://d:2"], ["dynamo=http://r:9/m"])
    assert [(pool.name, pool.role, len(pool.targets)) for pool in config.pools] == [
        ("prefill", "prefill", 1),
        ("decode", "decode", 2),
    ]
    assert config.router == Router(kind="dynamo", targets=(Target("r:9", "http://r:9/m"),))


def test_flags_replace_the_pools_of_the_file_and_leave_the_rest(load):
    config = load(WHOLE, decode=["http://d:1"])
    assert [pool.name for pool in config.pools] == ["decode"]
    assert config.deployment == "glm-prod"


def test_pools_of_a_recording_come_from_the_names_of_its_targets():
    config = config_from_names(["decode-1", "prefill-0", "decode-0", "router-0", "decode-0"])
    assert [(pool.name, [target.name for target in pool.targets]) for pool in config.pools] == [
        ("prefill", ["prefill-0"]),
        ("decode", ["decode-0", "decode-1"]),
    ]
    assert config.router == Router(kind="auto", targets=(Target("router-0"),))
    assert tpot_scopes(config) == [("tpot", "decode")]


@pytest.mark.parametrize("names", [["vllm-0"], ["router-0"], []])
def test_a_name_that_tells_no_role_asks_for_a_configuration(names):
    with pytest.raises(ConfigError, match="-c"):
        config_from_names(names)


def test_variables_that_set_nothing_are_told_but_not_those_of_kubernetes():
    said = unknown_variables(
        {
            "PDWATCH_DEPLOYMNT": "x",
            "PDWATCH_SERVICE_HOST": "1",
            "PDWATCH_PORT_9838_TCP": "1",
            "PDWATCH_LISTEN": ":1",
            "A": "",
        }
    )
    assert said == ("environment: PDWATCH_DEPLOYMNT sets nothing; did you mean PDWATCH_DEPLOYMENT?",)


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deploymnt: x", "pdwatch.yaml:1: deploymnt: unknown key; did you mean deployment?"),
        (
            SMALL + "scrape:\n  interval: 5s\n  intervall: 5s",
            ":4: scrape.intervall: unknown key; did you mean interval?",
        ),
        (
            "pools: {p: {role: prefil, targets: [http://a]}}",
            ":1: pools.p.role: 'prefil' is not valid; did you mean prefill?",
        ),
        ("pools: {p: {targets: [http://a]}}", "pdwatch.yaml:1: pools.p: 'role' is required: "),
        ("pools: {p: {role: decode}}", "pdwatch.yaml:1: pools.p: 'targets' is required: "),
        ("pools: {p: {role: decode, targets: []}}", "pdwatch.yaml:1: pools.p.targets: holds no target"),
        ("pools: {p: {role: decode, targets: http://a}}", "pdwatch.yaml:1: pools.p.targets: must be a mapping"),
        (
            "pools: {p: {role: decode, targets: ['a:8000']}}",
            "[0]: 'a:8000' is not an http or https URL; write http://a:8000",
        ),
        ("pools: {p: {role: decode, targets: ['ftp://a']}}", "is not an http or https URL"),
        ("pools: {p: {role: decode, targets: ['http://a:0']}}", "is not a URL with a host and a valid port"),
        ("pools: {p: {role: decode, targets: ['http://a:99999']}}", "is not a URL: Port out of range"),
        ("pools: {p: {role: decode, targets: ['http:///x']}}", "is not a URL with a host"),
        ("pools: {p: {role: decode, targets: ['http://a#x']}}", "the part after # is never sent"),
        ("pools: {system: {role: decode, targets: [http://a]}}", "pools.system: 'system' names the whole deployment"),
        ("pools: {'a b': {role: decode, targets: [http://a]}}", "a pool's name has letters"),
        ("pools: {p: {role: decode, targets: {'a b': http://a}}}", "a target's name is 1 to 253 printable characters"),
        (
            "pools: {p: {role: decode, gpus_per_target: 0, targets: [http://a]}}",
            "gpus_per_target: must be at least 1, not 0",
        ),
        ("pools: {p: {role: decode, gpus_per_target: 4.5, targets: [http://a]}}", "must be a whole number, not '4.5'"),
        ("pools: {p: {role: decode, targets: {x: http://a, x: http://b}}}", "pools.p.targets.x: given twice; keep one"),
        (
            "pools: {p: {role: decode, targets: {x: http://a, y: 'http://A:80/metrics/'}}}",
            "pools.p.targets.y: the same address as target 'x'",
        ),
        (
            "pools:\n  p: {role: decode, targets: {x: http://a}}\n  q: {role: prefill, targets: {x: http://b}}",
            ":3: pools.q.targets.x: target 'x' is already in pools.p",
        ),
        (
            SMALL + "router: {kind: dynamo, targets: {decode-0: http://r}}",
            "router.targets.decode-0: target 'decode-0' is already in pools.decode",
        ),
        (
            SMALL + "router: {kind: dynammo, targets: [http://r]}",
            "router.kind: 'dynammo' is not valid; did you mean dynamo?",
        ),
        ("deployment: x", "pools: is required"),
        ("", "pools: is required"),
        ("- a", "must be a mapping (key: value), not a list"),
        ("just text", "must be a mapping (key: value), not the single value 'just text'"),
        (SMALL + "scrape: {interval: 5 parsecs}", "scrape.interval: '5 parsecs' is not a duration"),
        (SMALL + "scrape: {interval: [5]}", "scrape.interval: must be a single value, not a list"),
        (SMALL + "scrape: {interval: 1ms}", "scrape.interval: must be at least 200ms, not 1ms"),
        (SMALL + "scrape: {interval: 2s, timeout: 3s}", "pdwatch.yaml:2: scrape.timeout: is longer than the interval"),
        (SMALL + "scrape: {max_page_bytes: 5 apples}", "scrape.max_page_bytes: '5 apples' is not a size"),
        (SMALL + "contract: {prompt_tokens: [5, 4]}", "contract.prompt_tokens: must be two numbers"),
        (SMALL + "contract: {prompt_tokens: [1, x]}", "contract.prompt_tokens[1]: must be a whole number, not 'x'"),
        (
            "pools: {p: {role: decode, targets: [http://a], tls: {insecure_skip_verify: yes}}}",
            "tls.insecure_skip_verify: must be true or false, not 'yes'",
        ),
        (
            "pools: {p: {role: decode, targets: [http://a], tls: {key_file: k}}}",
            "tls.key_file: a key needs a 'cert_file' beside it",
        ),
        (SMALL + "contract: {prompt_tokens: 5}", "contract.prompt_tokens: must be a list, not the single value '5'"),
        (SMALL + "mode: sidecart", "mode: 'sidecart' is not valid; did you mean sidecar?"),
        (SMALL + "listen: 9838", "listen: '9838' is not host:port"),
        (SMALL + "prefix: '0x'", "prefix: '0x' cannot begin a metric's name"),
        (SMALL + "deployment: ${SITE}", "pdwatch.yaml:2: deployment: environment variable SITE is not set"),
        (SMALL + "deployment: !!python/object:os.system x", "is not supported"),
        (SMALL + "deployment: !secret x", "is not supported"),
        (SMALL + 'deployment: "a\\nb"', "deployment: holds a line break"),
        (SMALL + "a: [1", "pdwatch.yaml:2: not valid YAML: "),
        (SMALL + "a: *nowhere", "not valid YAML: "),
        (SMALL + "---\na: b", "not valid YAML: "),
        (SMALL + "? [a]\n: b", "a key must be a single value"),
        (SMALL + "links: {runbooks: example.org}", "links.runbooks: 'example.org' is not an http or https URL"),
    ],
)
def test_an_error_is_one_line_with_file_line_key_and_what_is_wrong(error, text, message):
    assert message in error(text)
    assert error(text).startswith("pdwatch.yaml")


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("{scope: system, target: 1s}", "objectives[0]: 'indicator' is required"),
        ("{indicator: ttft, target: 1s}", "objectives[0]: 'scope' is required"),
        ("{indicator: ttft, scope: system}", "objectives[0]: 'target' is required"),
        ("{indicator: ttftt, scope: system, target: 1s}", "'ttftt' is not valid; did you mean ttft?"),
        (
            "{indicator: tpot, scope: decod, target: 1s}",
            "objectives[0].scope: 'decod' is no pool; did you mean decode?",
        ),
        ("{indicator: ttft, scope: system, target: 0}", "objectives[0].target: must be above 0"),
        (
            "{indicator: ttft, scope: system, target: 1s, window: 30s}",
            "objectives[0].window: must be at least 1m, not 30s",
        ),
        (
            "{indicator: ttft, scope: system, target: 1s, window: 4d}",
            "objectives[0].window: must be at most 3d, not 4d",
        ),
        ("{indicator: ttft, scope: system, target: 1s, clear_below: 0}", "clear_below: must be a number above 0"),
        ("{indicator: ttft, scope: system, target: 1s, clear_below: nan}", "clear_below: must be a number above 0"),
        ("{indicator: ttft, scope: system, target: 1s, clear_below: x}", "clear_below: must be a number, not 'x'"),
        ("{indicator: ttft, scope: system, target: soon}", "objectives[0].target: 'soon' is not a duration"),
        ("{indicator: ttft, scope: system, target: 1s, clear_below: 1.1}", "clear_below: must be at most 1, not 1.1"),
        ("{indicator: ttft, scope: system, target: 1s, min_requests: 0}", "min_requests: must be at least 1"),
        ("{indicator: ttft, scope: system, target: 1s, statistic: p75}", "'p75' is not valid; did you mean p95?"),
        ("{indicator: ttft, scope: system, target: 1s, statistic: share}", "'share' needs an 'objective'"),
        ("{indicator: ttft, scope: system, target: 1s, objective: 0.9}", "goes with statistic 'share'"),
        ("{indicator: errors, scope: system, target: 2}", "a share of requests is at most 1"),
        ("{indicator: acceptance_length, scope: decode, target: 0.5}", "at least 1 token per step"),
        ("{indicator: tpot_token, scope: decode, target: 20ms, statistic: p99}", "tpot_token has a mean only"),
    ],
)
def test_an_objective_that_cannot_be_judged_is_refused(error, objective, message):
    assert message in error(SMALL + f"objectives: [{objective}]")


def test_two_objectives_of_one_name_are_refused(error):
    text = (
        SMALL
        + "objectives:\n"
        + "- {indicator: ttft, scope: system, target: 1s}\n"
        + "- {indicator: ttft, scope: system, target: 2s}\n"
    )
    assert (
        error(text)
        == "pdwatch.yaml:4: objectives[1]: an objective named 'ttft' is there already; give each its own 'name'"
    )


@pytest.mark.parametrize(
    "receiver",
    ["alertmanagers: [http://a]", "webhooks: [http://a]", "pagerduty: {routing_key: k}", "slack: {url: http://a}"],
)
def test_a_deployment_without_a_name_cannot_page(error, load, receiver):
    text = SMALL + f"alerting: {{{receiver}}}"
    assert "deployment: is required as soon as anything is paged" in error(text)
    assert load(text + "\ndeployment: d").alerting.sends_directly


@pytest.mark.parametrize(
    ("alerting", "message"),
    [
        ("{path: both}", "alerting.path: 'both' is not valid; valid: direct, rules"),
        ("{labels: {severity: x}}", "alerting.labels.severity: 'severity' is set by pdwatch itself"),
        ("{labels: {a-b: x}}", "alerting.labels.a-b: a label's name"),
        ("{labels: {a: [x]}}", "alerting.labels.a: must be a single value"),
        ("{slack: {}}", "alerting.slack: 'url' or 'url_file' is required"),
        ("{slack: {url: http://a, url_file: b}}", "give 'url' or 'url_file', not both"),
        ("{pagerduty: {key: x}}", "alerting.pagerduty.key: unknown key"),
        ("{webhooks: [{auth: {bearer_token: x}}]}", "alerting.webhooks[0]: 'url' or 'url_file' is required"),
        ("{alertmanagers: [a]}", "alerting.alertmanagers[0]: 'a' is not an http or https URL"),
        ("{mute: [{comment: x}]}", "alerting.mute[0]: give 'from' and 'to' (once), or 'hours'"),
        ("{mute: [{from: 2026-01-01T00:00:00Z}]}", "'from' and 'to' go together"),
        ("{mute: [{from: 2026-01-01, to: 2026-01-02}]}", "has no time zone"),
        ("{mute: [{from: soon, to: later}]}", "'soon' is not a time"),
        ("{mute: [{from: 2026-01-02T00:00:00Z, to: 2026-01-01T00:00:00Z}]}", "must be after 'from'"),
        ("{mute: [{weekdays: [monday]}]}", "give 'from' and 'to' (once), or 'hours'"),
        ("{mute: [{hours: 25:00-26:00}]}", "is not a time of day"),
        ("{mute: [{hours: 22:00-04:00, weekdays: [satturday]}]}", "did you mean saturday?"),
        ("{mute: [{hours: 22:00-04:00, timezone: Mars/Olympus}]}", "is not a time zone"),
    ],
)
def test_receivers_and_maintenance_windows_are_checked(error, alerting, message):
    assert message in error(SMALL + f"alerting: {alerting}")


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ("{bearer_token: a, bearer_token_file: b}", "give 'bearer_token' or 'bearer_token_file', not both"),
        ("{bearer_token: a, username: b, password: c}", "give a bearer token or a username with a password, not both"),
        ("{username: a}", "needs a 'password' or 'password_file'"),
        ("{password: a}", "needs a 'username'"),
    ],
)
def test_authentication_is_one_way_and_complete(error, auth, message):
    text = f"pools: {{p: {{role: decode, targets: [http://a], auth: {auth}}}}}"
    assert message in error(text)


def test_a_secret_is_never_part_of_an_error(error):
    for text in (
        "pools: {p: {role: decode, targets: ['http://user:SECRET@a']}}",
        "pools: {p: {role: decode, targets: ['ftp://a/?token=SECRET']}}",
        SMALL + "alerting: {slack: {url: 'hooks.example/SECRET'}}",
        SMALL + "alerting: {slack: {url: 'ftp://hooks.example/SECRET'}}",
    ):
        assert "SECRET" not in error(text)


def test_errors_of_environment_and_flags_say_so_in_place_of_a_file(load):
    for environ, overrides, message in (
        (
            {"PDWATCH_SCRAPE_INTERVAL": "x"},
            None,
            "environment PDWATCH_SCRAPE_INTERVAL: scrape.interval: 'x' is not a duration",
        ),
        ({"PDWATCH_OBJECTIVES": "[a"}, None, "environment PDWATCH_OBJECTIVES: objectives: '[a' is not valid YAML"),
        ({}, {"listen": "x"}, "command line: listen: 'x' is not host:port"),
        ({}, {"listn": "x"}, "command line: listn: unknown key; did you mean listen?"),
    ):
        with pytest.raises(ConfigError) as raised:
            load(SMALL, environ, overrides)
        assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("routers", "message"),
    [
        (["http://r"], "command line --router: router: write KIND=URL; valid: llm-d-epp, dynamo,"),
        (["dynmo=http://r"], "did you mean dynamo?"),
        (["dynamo=http://r", "vllm-router=http://s"], "all of one kind, not dynamo and vllm-router"),
        (["dynamo=r"], "command line --router: router.targets[0]: 'r' is not an http or https URL"),
    ],
)
def test_a_router_flag_is_a_kind_and_a_url(routers, message):
    with pytest.raises(ConfigError) as raised:
        config_from_flags(decode=["http://d"], routers=routers)
    assert message in str(raised.value)


def test_a_file_that_cannot_be_read_or_is_no_text_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_config(tmp_path / "nowhere.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(ConfigError, match="not a text file"):
        load_config(tmp_path / "binary.yaml", {})


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    file: Path = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load_config(file, {}).pools[0].name == "decode"


def test_a_bomb_of_aliases_a_deep_file_and_a_huge_one_end_as_errors(error):
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )
    assert "more than 100000 values" in error(bomb)
    assert "nested deeper than 32 levels" in error("a: &a [*a]")
    assert "nested deeper than 32 levels" in error("a: " + "[" * 40 + "]" * 40)
    assert "nested deeper than 32 levels" in error("a: " + "[" * 20_000 + "]" * 20_000)
    assert "larger than 1048576 bytes" in error("# " + "x" * (1 << 20))
