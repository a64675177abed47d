"""Label selectors: from the API's text to a manifest's form."""

from typing import Any

import pytest

from agent.errors import ConfigError
from agent.export.kubernetes.selectors import label_selector


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("", {}),
        ("app=vllm", {"matchLabels": {"app": "vllm"}}),
        (" app == vllm , role=decode ", {"matchLabels": {"app": "vllm", "role": "decode"}}),
        ("llm-d.ai/role=prefill", {"matchLabels": {"llm-d.ai/role": "prefill"}}),
        ("app=", {"matchLabels": {"app": ""}}),
        ("role!=prefill", {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["prefill"]}]}),
        (
            "role in (decode, both),app=vllm",
            {
                "matchLabels": {"app": "vllm"},
                "matchExpressions": [{"key": "role", "operator": "In", "values": ["decode", "both"]}],
            },
        ),
        ("tier notin (a)", {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}),
        ("gpu", {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
        ("!canary", {"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]}),
    ],
)
def test_every_form_of_a_selector_is_understood(text: str, selector: dict[str, Any]) -> None:
    assert label_selector(text, "here") == selector


@pytest.mark.parametrize("text", ["app=vllm role=decode", "role in decode", "=vllm", "app=a=b", "app > 3"])
def test_what_kubernetes_would_refuse_is_refused_with_the_term(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: .* is no term of a label selector"):
        label_selector(text, "here")


def test_two_values_of_one_label_are_refused_since_no_pod_has_both() -> None:
    with pytest.raises(ConfigError, match="here: app cannot have two values at once"):
        label_selector("app=a,app=b", "here")
