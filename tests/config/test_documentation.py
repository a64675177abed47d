"""The documentation lists what the dataclasses hold: no setting is undocumented, none is invented."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from agent.config import Config
from agent.config.reference import markdown_table, settings

BEGIN = re.compile(r"<!-- settings: begin [^\n]*-->\n")
END = "<!-- settings: end -->"
HOW = (
    "the table of docs/configuration.md is not that of the dataclasses; put this between its marks:\n"
    'python -c "from agent.config.reference import markdown_table; print(markdown_table())"'
)


def documented_table(repository: Path) -> str:
    text = (repository / "docs/configuration.md").read_text(encoding="utf-8")
    return BEGIN.split(text)[1].split(END)[0]


def keys_below(cls: type[Any], path: str = "") -> set[str]:
    """Key paths straight from the dataclasses, by a way that the product does not use."""
    keys = set()
    for field in dataclasses.fields(cls):
        if field.name in ("file", "name") and "key" not in field.metadata:
            continue  # where the configuration came from, and a pool's key in its mapping
        here = f"{path}{field.metadata['key']}"
        inner = field.metadata["kind"].section
        if inner is None or field.metadata["kind"].many:
            keys.add(here)
        if inner is not None:
            keys |= keys_below(inner, here + field.metadata["kind"].many + ".")
    return keys


def test_the_table_of_settings_is_the_one_made_from_the_dataclasses(repository: Path):
    assert documented_table(repository) == markdown_table(), HOW


def test_every_key_of_every_dataclass_is_in_the_table(repository: Path):
    listed = set(re.findall(r"^\| `([^`]+)`", documented_table(repository), re.MULTILINE))
    assert listed == keys_below(Config)
    assert {"scrape.interval", "pools.<name>.tls.ca_file", "objectives[].clear_below", "alerting.slack.url"} <= listed


def test_every_setting_has_a_meaning_and_no_two_share_a_variable():
    rows = list(settings())
    assert [row.path for row in rows if not row.meaning] == []
    variables = [row.variable for row in rows if row.variable]
    assert len(variables) == len(set(variables))


def test_every_yaml_example_of_the_documentation_is_one_that_loads(repository: Path, tmp_path: Path):
    from agent.config import load_config

    text = (repository / "docs/configuration.md").read_text(encoding="utf-8")
    pools = "deployment: d\npools: {decode: {role: decode, targets: [http://h]}}\n"
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 4
    for example in examples:
        whole = example if example.startswith("deployment") else pools + example
        whole = whole.replace(pools + "  - {", pools + "objectives:\n  - {")
        file = tmp_path / "example.yaml"
        file.write_text(whole, encoding="utf-8")
        load_config(file, {})
