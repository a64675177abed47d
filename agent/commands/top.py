"""`pdwatch top`. In: the address of a running pdwatch. Out: its state in the terminal, live, or once."""

from __future__ import annotations

import argparse

from agent.errors import ConfigError

DEFAULT_ADDRESS = "http://127.0.0.1:9838"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which pdwatch, and whether to stay."""
    parser.add_argument(
        "url", metavar="URL", nargs="?", default=DEFAULT_ADDRESS, help=f"a running pdwatch (default {DEFAULT_ADDRESS})"
    )
    parser.add_argument("--once", action="store_true", help="print the state once, as text, and end")


def main(args: argparse.Namespace) -> int:
    """Shows until q (0) or Ctrl-C (130). Raises ViewerError where there is no pdwatch (2)."""
    try:
        from agent.outputs.terminal.top import run_top
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise ConfigError("top: the library rich is missing; install the extra: pip install 'pdwatch[top]'") from None
    return run_top(args.url, args.once)
