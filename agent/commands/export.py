"""`pdwatch export`. In: a configuration. Out: files for other systems, in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.commands.arguments import add_targets, configured
from agent.errors import ConfigError

if TYPE_CHECKING:
    from agent.config import Config

KINDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "alerts": ("agent.export.rules.files", "alert_files"),
        "dashboards": ("agent.export.dashboards.write", "dashboard_files"),
        "kubernetes": ("agent.export.kubernetes.files", "kubernetes_files"),
    }
)
"""What can be exported -> module and function that gives file name -> text."""


def configure(parser: argparse.ArgumentParser) -> None:
    """What, for which deployment, where to."""
    parser.add_argument("what", choices=sorted(KINDS), help="what to write")
    add_targets(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="folder; made if need be")


def main(args: argparse.Namespace) -> int:
    """Writes the files, and their names on stdout (0). Files of other names in the folder are left alone."""
    config = configured(args)
    if config is None:
        raise ConfigError("export: name the deployment: -c FILE, or --prefill URL and --decode URL")
    module, function = KINDS[args.what]
    make: Callable[[Config], Mapping[str, str]] = getattr(import_module(module), function)
    for name, text in make(config).items():
        path = args.output / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"export: {path}: {error.strerror or error}; choose another folder with -o") from None
        sys.stdout.write(f"{path}\n")
    return 0
