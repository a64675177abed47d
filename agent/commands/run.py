"""`pdwatch run`. In: a configuration or addresses. Out: a watch that serves its pages until a signal ends it."""

from __future__ import annotations

import argparse

from agent.commands.arguments import add_targets, configured, log_to_stderr


def configure(parser: argparse.ArgumentParser) -> None:
    """The deployment, and where to listen."""
    add_targets(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to serve (default 127.0.0.1:9838)")


def main(args: argparse.Namespace) -> int:
    """Runs until SIGINT (130) or SIGTERM (0)."""
    from agent import runtime

    log_to_stderr()
    return runtime.run(configured(args, listen=args.listen), args.listen)
