"""What other systems read: Kubernetes, Grafana, Alertmanager; and the documents."""

import re
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml

from agent.burn import decimal_text, error_budget
from tests.export.rules.made import CONFIGS, RULE_FILES, Json, alerts, files, parsed, ran, rules, tool, written

PAIRS = [("vllm-prometheusrule.yaml", "vllm-rules.yml"), ("pdwatch-prometheusrule.yaml", "pdwatch-rules.yml")]


@pytest.mark.parametrize(("file", "same"), PAIRS)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_prometheus_rule_keeps_to_the_operators_schema(name: str, file: str, same: str, shared_dir: Path) -> None:
    crd = yaml.safe_load((shared_dir / "schemas/kubernetes/prometheusrules.yaml").read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    document = parsed(files(name)[file])
    jsonschema.Draft202012Validator(schema).validate(document)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", document["metadata"]["name"])
    assert document["spec"]["groups"] == parsed(files(name)[same])["groups"]


def grafana_rules(text: str) -> list[Json]:
    return [rule for group in parsed(text)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("name", CONFIGS)
def test_grafana_gets_every_alert_once_with_queries_of_its_form(name: str, shared_dir: Path) -> None:
    schema = yaml.safe_load((shared_dir / "schemas/grafana/alerting.jsonschema.json").read_text(encoding="utf-8"))
    query = {**schema["definitions"]["Query"], "definitions": schema["definitions"]}
    for family, file in (("vllm", "vllm-grafana.yaml"), ("pdwatch", "pdwatch-grafana.yaml")):
        made = grafana_rules(files(name)[file])
        assert len(made) == len(alerts(files(name)[f"{family}-rules.yml"]))
        assert len({rule["uid"] for rule in made}) == len({rule["title"] for rule in made}) == len(made)
        for rule in made:
            assert rule["title"].startswith("PDWatch")
            assert len(rule["uid"]) <= 40
            assert len(rule["title"]) <= 190
            assert rule["condition"] in {one["refId"] for one in rule["data"]}
            assert "ALERTS" not in rule["data"][0]["model"]["expr"]
            assert "| humanize" not in rule["annotations"]["description"]
            assert 'with query "' not in "".join(rule["annotations"].values())
            for one in rule["data"]:
                jsonschema.Draft7Validator(query).validate(one)


def test_grafana_recovers_at_the_level_at_which_an_objective_is_well_met() -> None:
    (rule,) = [rule for rule in grafana_rules(files()["vllm-grafana.yaml"]) if rule["labels"].get("objective") == "tpot"
               and rule["title"].startswith("PDWatchObjectiveBreached")]  # fmt: skip
    (condition,) = rule["data"][1]["model"]["conditions"]
    assert condition["evaluator"] == {"type": "gt", "params": [0.02]}
    assert condition["unloadEvaluator"] == {"type": "lt", "params": [0.019]}
    assert rule["noDataState"] == "KeepLast"


@pytest.mark.parametrize("name", CONFIGS)
def test_the_alertmanager_example_is_valid(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, files(name))
    done = ran([tool("amtool"), "check-config", "alertmanager-example.yml"], folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=PDWatchObjectiveBreached", "severity=critical"], "pager"),
        (["alertname=PDWatchEngineFrozen", "severity=critical"], "pager"),
        (["alertname=PDWatchKvExpired", "severity=warning"], "tickets"),
        (["alertname=PDWatchLatencyStepChange", "severity=info"], "nobody"),
        (["alertname=PDWatchDeadMan", "severity=info"], "heartbeat"),
        (["alertname=SomebodyElses", "severity=critical"], "nobody"),
    ],
)
def test_amtool_routes_an_alert_to_whom_it_concerns(labels: list[str], receiver: str, tmp_path: Path) -> None:
    folder = written(tmp_path, files())
    file = "--config.file=alertmanager-example.yml"
    wanted = f"--verify.receivers={receiver}"
    done = ran([tool("amtool"), "config", "routes", "test", file, wanted, "deployment=glm-prod", *labels], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def matches(matchers: list[str], labels: Json) -> bool:
    for matcher in matchers:
        label, sign, wanted = re.fullmatch(r'(\w+)(=~|=)"(.*)"', matcher).groups()  # type: ignore[union-attr]
        value = labels.get(label, "")
        if (re.fullmatch(wanted, value) is None) if sign == "=~" else value != wanted:
            return False
    return True


@pytest.mark.parametrize("name", CONFIGS)
def test_no_alert_inhibits_itself_and_none_crosses_deployments(name: str) -> None:
    inhibitions = parsed(files(name)["alertmanager-example.yml"])["inhibit_rules"]
    assert all("deployment" in rule["equal"] for rule in inhibitions)
    for file in RULE_FILES:
        for alert in alerts(files(name)[file]):
            for severity in ("critical", "warning"):
                labels = {"severity": severity, **alert["labels"], "alertname": alert["alert"]}
                for rule in inhibitions:
                    both = matches(rule["source_matchers"], labels) and matches(rule["target_matchers"], labels)
                    assert not both, (labels, rule)


def test_the_causes_of_a_broken_promise_wait_behind_it() -> None:
    inhibitions = parsed(files()["alertmanager-example.yml"])["inhibit_rules"]
    promise = {"alertname": "PDWatchObjectiveBreached", "severity": "critical", "objective": "tpot"}
    behind = {"alertname": "PDWatchSpeculationCollapsed", "severity": "warning", "code": "speculation_collapsed"}
    beside = {"alertname": "PDWatchMemoryLeak", "severity": "warning", "code": "memory_leak"}

    def inhibited(labels: Json) -> bool:
        return any(
            matches(rule["source_matchers"], promise) and matches(rule["target_matchers"], labels)
            for rule in inhibitions
        )

    assert inhibited(behind)
    assert not inhibited(beside)
    assert not inhibited({**behind, "severity": "critical"})


def test_the_scrape_example_gives_every_target_its_pool_and_name() -> None:
    jobs = parsed(files()["prometheus-example.yml"])["scrape_configs"]
    given = [config["labels"] for job in jobs for config in job["static_configs"] if "labels" in config]
    assert {(one["pool"], one["target"]) for one in given} == {
        *(("prefill", f"prefill-{n}") for n in range(4)),
        ("decode", "decode-0"),
    }
    assert {one["deployment"] for one in given} == {"glm-prod"}


def test_tiers_say_when_they_fire_and_refused_ones_say_why() -> None:
    text = files("objectives")["vllm-rules.yml"]
    assert "# tier fast fires after 30 min of full outage, or at more than 50 % slow over 1h and 5m" in text
    assert "# all of system: a promised share of 1 leaves no budget to burn" in text
    assert "# no rule for objective late of decode: no bucket edge is at or above 30 s: nothing can break it" in text
    assert "# no rule for objective nonsense of prefill: no pool there has tpot" in text
    refused = "# tpot-90 of decode: no tier medium: it would fire at more than 50 % slow, where fast has fired already"
    assert refused in text


def test_every_alert_says_when_it_fires() -> None:
    for file in RULE_FILES:
        for name in ("story", "objectives"):
            lines = files(name)[file].splitlines()
            for number, line in enumerate(lines):
                if line.strip().startswith("- alert:"):
                    above = lines[number - 1] + lines[number - 2]
                    assert "# fires" in above or "# tier" in above or "full outage has no mean" in above, line


def test_likely_budgets_are_read_from_the_recovered_distribution_at_the_target_itself() -> None:
    record = "objective:pdwatch_tpot_bad_ratio:estimate1h"
    (rule,) = [rule for rule in rules(files("objectives")["pdwatch-rules.yml"]) if rule.get("record") == record]
    assert 'pdwatch_recovered_tpot_seconds_bucket{deployment="glm-test",pool="decode",le="0.02"}' in rule["expr"]


def test_the_documents_table_of_tiers_is_the_arithmetic(repository: Path) -> None:
    text = (repository / "docs" / "alerts.md").read_text(encoding="utf-8")
    for promised in ("0.999", "0.99", "0.95", "0.9"):
        budget = error_budget(Decimal(promised))
        tiers = {tier.name: tier for tier in budget.tiers}
        cells = [
            f"{decimal_text(tiers[name].full_outage_seconds / 60, 1)} min, "
            f"{decimal_text(tiers[name].threshold_ratio * 100, 2)} %"
            if name in tiers
            else "refused"
            for name in ("fast", "medium", "slow", "trickle")
        ]
        assert f"| {decimal_text(Decimal(promised) * 100)} % | {' | '.join(cells)} |" in text


def test_the_documents_name_every_file(repository: Path) -> None:
    text = (repository / "docs" / "alerts.md").read_text(encoding="utf-8")
    for file in files():
        pattern = re.sub(r"^.*(-prometheusrule\.yaml|-grafana\.yaml|_test\.yml)$", r"*\1", file)
        assert f"`{pattern}`" in text
