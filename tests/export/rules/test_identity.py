"""Names, labels and annotations: the parts of an alert that others rely on."""

import re

import pytest

from agent.export.rules.families import pdwatch_family, vllm_family
from agent.export.rules.identity import OWN_RULES
from agent.verdicts.alert_rules import ALERT_RULES, OBJECTIVE_ALERT
from agent.verdicts.alert_texts import AlertTexts
from tests.export.rules.made import CONFIGS, RULE_FILES, alerts, files, objectives, rules, story

FIXED = {"severity", "deployment", "scope", "code", "objective"}
BY = re.compile(r"\bby \(([^)]*)\)")
SECTION = re.compile(r"^## (\w+)$", re.MULTILINE)
PARTS = ("**Means.**", "**Confirm.**", "**Usually.**", "**Do.**", "**Known.**")


@pytest.mark.parametrize("file", RULE_FILES)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_alert_has_the_contracts_labels_and_no_other(name: str, file: str) -> None:
    extra = {label for label, _ in CONFIGS[name]().alerting.labels}
    for alert in alerts(files(name)[file]):
        labels = set(alert["labels"])
        assert alert["alert"].startswith("PDWatch")
        assert labels - extra <= FIXED, alert["alert"]
        assert {"deployment", *extra} <= labels
        assert len(labels & {"code", "objective"}) == 1, alert["alert"]
        assert "{{" not in "".join(alert["labels"].values())


@pytest.mark.parametrize("file", RULE_FILES)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_alert_has_its_texts_and_a_section_in_the_runbooks(name: str, file: str) -> None:
    sections = {section.lower() for section in SECTION.findall(files(name)["runbooks.md"])}
    for alert in alerts(files(name)[file]):
        texts = alert["annotations"]
        assert texts.keys() >= {"summary", "description", "runbook_url", "dashboard_url"}
        assert texts["summary"].endswith(".")
        assert "{{" not in texts["summary"]
        base, _, anchor = texts["runbook_url"].partition("#")
        assert base == (CONFIGS[name]().links.runbooks or "runbooks.md")
        assert anchor == alert["alert"].lower()
        assert anchor in sections
        assert "/d/pdwatch-" in texts["dashboard_url"]
        assert "%" not in re.sub(r"\d %", "", texts["description"]), "a token was left in the text"


def test_every_section_of_the_runbooks_says_all_five_things() -> None:
    text = files()["runbooks.md"]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert [part for part in PARTS if part not in section] == [], section.splitlines()[0]


def test_every_alert_that_pdwatch_sends_has_a_section() -> None:
    sections = set(SECTION.findall(files()["runbooks.md"]))
    assert {rule.name for rule in (*ALERT_RULES.values(), *OWN_RULES.values())} <= sections


@pytest.mark.parametrize("file", RULE_FILES)
@pytest.mark.parametrize("name", CONFIGS)
def test_rules_aggregate_instance_job_and_pod_away(name: str, file: str) -> None:
    for rule in rules(files(name)[file]):
        if "alert" in rule:
            labels = {label.strip() for by in BY.findall(rule["expr"])[:1] for label in by.split(",")}
            assert labels.isdisjoint({"instance", "job", "pod", "model_name", "process"})


@pytest.mark.parametrize("family", [vllm_family, pdwatch_family])
def test_alerts_are_named_and_held_as_those_that_pdwatch_sends(family) -> None:
    told = {rule.name: rule for rule in ALERT_RULES.values()}
    for alert in family(story()).alerts():
        rule = told.get(alert.name)
        if rule is not None:
            assert alert.summary == rule.summary
            assert alert.hold_seconds <= rule.hold_seconds
            assert alert.keep_seconds >= rule.clear_seconds


@pytest.mark.parametrize("family", [vllm_family, pdwatch_family])
def test_a_broken_promise_has_the_labels_that_pdwatch_gives_it(family) -> None:
    config = objectives()
    texts = AlertTexts(config)
    sent = [texts.objective_labels(one) for one in config.objectives if one.name != "nonsense"]
    made = [
        {"alertname": alert.name, **alert.labels}
        for alert in family(config).alerts()
        if alert.name == OBJECTIVE_ALERT and alert.labels["objective"] not in ("nonsense", "late")
    ]
    assert made == [labels for labels in sent if labels["objective"] != "late"]


@pytest.mark.parametrize("name", CONFIGS)
def test_no_two_rules_of_a_family_can_give_the_same_alert(name: str) -> None:
    for file in RULE_FILES:
        seen = [
            (alert["alert"], tuple(sorted(alert["labels"].items())))
            for alert in alerts(files(name)[file])
            if "severity" in alert["labels"]
        ]
        assert len(seen) == len(set(seen))


def test_the_dead_mans_switch_is_in_both_families_and_goes_to_nobody_who_sleeps() -> None:
    for file in RULE_FILES:
        (alert,) = [alert for alert in alerts(files()[file]) if alert["alert"] == "PDWatchDeadMan"]
        assert alert["expr"] == "vector(1)"
        assert alert["labels"]["severity"] == "info"
