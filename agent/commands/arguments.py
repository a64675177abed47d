"""Arguments that several commands share. In: a parser, or what it parsed. Out: the same arguments everywhere."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.config import Config


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Which deployment: a file, or addresses."""
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="configuration (YAML)")
    parser.add_argument(
        "--prefill", metavar="URL", action="append", default=[], help="a prefill server; may be repeated"
    )
    parser.add_argument("--decode", metavar="URL", action="append", default=[], help="a decode server; may be repeated")
    parser.add_argument("--router", metavar="KIND=URL", action="append", default=[], help="the router in front")


def configured(args: argparse.Namespace, **overrides: str | None) -> Config | None:
    """The configuration that the arguments and the environment name; None when they name no deployment at all.

    `overrides`: setting -> text given by a flag, None for a flag that was not given. Raises ConfigError.
    """
    from agent.config import load_config

    given = {setting: text for setting, text in overrides.items() if text is not None}
    flags = {"prefill": args.prefill, "decode": args.decode, "routers": args.router}
    if args.config is None and not any(flags.values()) and not os.environ.get("PDWATCH_POOLS", "").strip():
        return None
    return load_config(args.config, os.environ, given, **flags)


def log_to_stderr() -> None:
    """Logs go to stderr, each line beginning with the time."""
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form, datefmt="%Y-%m-%dT%H:%M:%S%z")


def moment(text: str) -> float:
    """Unix seconds of a number, or of a date and time with its offset. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds):
            return seconds
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither unix seconds nor a time with its offset, such as 2026-05-04T03:10:00Z"
        )
    return at.timestamp()


def length_of_time(text: str) -> float:
    """Seconds above 0, such as 30s or 10m. Raises ArgumentTypeError."""
    from agent.config import duration_seconds

    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be above 0")
    return seconds
