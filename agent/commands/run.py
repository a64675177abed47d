"""`pdwatch run`. In: a configuration or addresses. Out: a watch that serves its pages until a signal ends it.

Without either it starts the demo fleet and watches that.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agent.commands import demo
from agent.commands.arguments import add_targets, configured, log_to_stderr

if TYPE_CHECKING:
    from agent.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """The deployment, and where to listen."""
    add_targets(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to serve (default 127.0.0.1:9838)")


def main(args: argparse.Namespace) -> int:
    """Runs until SIGINT (130) or SIGTERM (0)."""
    from agent import runtime

    config = configured(args, listen=args.listen)
    if config is None:
        return demo.start(listen=args.listen)
    log_to_stderr()
    load = None
    if args.config is not None:

        def load() -> Config:
            again = configured(args, listen=args.listen)
            assert again is not None  # the file is named, whatever has become of it
            return again

    return runtime.run(config, args.listen, load)
