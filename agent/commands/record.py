"""`pdwatch record`. In: a configuration or addresses. Out: a recording of all that the targets show."""

from __future__ import annotations

import argparse
from pathlib import Path

from agent.commands.arguments import add_targets, configured, length_of_time, log_to_stderr
from agent.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    """The deployment, the file, how long."""
    add_targets(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="new file, .jsonl or .jsonl.gz"
    )
    parser.add_argument("--for", dest="seconds", metavar="TIME", type=length_of_time, help="how long, such as 10m")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="where servers send their spans, to be recorded too (/v1/traces)"
    )


def main(args: argparse.Namespace) -> int:
    """Records for the given time (0), or until SIGINT (130) or SIGTERM (0)."""
    from agent import runtime

    log_to_stderr()
    config = configured(args, listen=args.listen)
    if config is None:
        raise ConfigError("record: name what to record: -c FILE, or --prefill URL and --decode URL")
    return runtime.record(config, args.output, args.seconds, args.listen)
