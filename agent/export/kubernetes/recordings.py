"""The recording rules on vLLM's own metrics, without the alerts. In: the configuration. Out: a family, or a rule file.

Boards on vLLM's metrics need what is recorded there. Their alerts have the identities of pdwatch's own, so whoever
pages by the rules on pdwatch loads the recordings alone.

    python -m agent.export.kubernetes.recordings alerts/pdwatch.yaml deploy/compose/vllm-recordings.yml
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from agent.config import Config, load_config
from agent.export.rules.families import vllm_family
from agent.export.rules.model import Family, Recording
from agent.export.rules.prometheus import rule_file

TITLE = "What is recorded of vLLM's own metrics, without the alerts: beside the rules on pdwatch, which page."


def vllm_recordings(config: Config) -> Family:
    """The family on vLLM's metrics with its recording rules alone."""
    whole = vllm_family(config)
    groups = (
        replace(group, rules=tuple(rule for rule in group.rules if isinstance(rule, Recording)), comments=())
        for group in whole.groups
    )
    kept = tuple(group for group in groups if group.rules)
    return replace(whole, name=f"{whole.name}-recordings", title=TITLE, groups=kept)


if __name__ == "__main__":
    configured, written = sys.argv[1:]
    Path(written).write_text(rule_file(vllm_recordings(load_config(configured, os.environ))), encoding="utf-8")
