"""What `pdwatch export dashboards` writes. In: the configuration. Out: file name -> text, always the same."""

from __future__ import annotations

from agent.config import Config, config_from_names
from agent.export.dashboards.boards import boards
from agent.export.dashboards.frame import board_text
from agent.export.dashboards.provisioning import PROVISIONING


def dashboard_files(config: Config) -> dict[str, str]:
    """One JSON file for each board, and provisioning files in a folder beside them."""
    files = {f"{board.word}.json": board_text(board) for board in boards(config)}
    return files | {f"provisioning/{name}": text for name, text in PROVISIONING.items()}


def default_config() -> Config:
    """A pool of each role with the default objectives: the committed boards fit every deployment that has those."""
    return config_from_names(["prefill-0", "decode-0"])
