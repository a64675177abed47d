"""`pdwatch version`. In: nothing. Out: one line with the version."""

from __future__ import annotations

import argparse
import sys

from agent import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing to configure."""


def main(args: argparse.Namespace) -> int:  # noqa: ARG001 - it has no arguments
    """Prints the version."""
    sys.stdout.write(f"pdwatch {__version__}\n")
    return 0
