"""The configuration as it may be shown: every setting, no secret."""

import json

import yaml

from agent.config import config_from_flags, load_config, masked

SECRETIVE = """
deployment: d
memory: {evidence_command: [upload, --token, SECRET]}
pools:
  decode:
    role: decode
    targets: {decode-0: "http://h:8000/metrics?token=SECRET&x=SECRET"}
    auth: {username: u, password: SECRET}
router: {kind: dynamo, targets: [http://r], auth: {bearer_token: SECRET}}
alerting:
  labels: {site: b}
  alertmanagers: [{url: http://a, auth: {bearer_token: SECRET}}]
  webhooks: [http://w/SECRET, {url: http://w/SECRET}]
  pagerduty: {routing_key: SECRET}
  slack: {url: http://s/SECRET}
  mute: [{hours: 01:00-02:00, labels: {scope: decode}}]
"""


def test_no_secret_is_shown_by_masking_nor_by_printing_the_configuration(tmp_path):
    file = tmp_path / "pdwatch.yaml"
    file.write_text(SECRETIVE, encoding="utf-8")
    config = load_config(file, {})
    shown = masked(config)
    assert "SECRET" not in json.dumps(shown)
    assert "SECRET" not in repr(config).replace("token=SECRET&x=SECRET", "")
    assert shown["pools"]["decode"]["auth"]["password"] == "***"
    assert shown["pools"]["decode"]["targets"]["decode-0"] == "http://h:8000/metrics?token=***&x=***"
    assert shown["alerting"]["webhooks"][0]["url"] == "***"
    assert shown["alerting"]["labels"] == {"site": "b"}


def test_what_is_shown_is_a_configuration_that_loads_to_the_same_values(tmp_path):
    config = config_from_flags(["http://p"], ["http://d"], ["dynamo=http://r"], overrides={"deployment": "x"})
    file = tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump(masked(config)), encoding="utf-8")
    again = load_config(file, {})
    assert masked(again) == masked(config)
    assert again.objectives == config.objectives
    assert masked(config)["alerting"]["labels"] == {}
