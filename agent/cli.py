"""The command line. In: arguments. Out: an exit code: 0 fine, 1 findings, 2 configuration or usage, 130 interrupted.

Only the file of the command that is asked for is imported, so that `pdwatch version` and `--help` are instant.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from agent import __version__
from agent.errors import PdwatchError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "watch a deployment; without a configuration: the built-in demo fleet",
        "check": "say what is wrong or weak in the configuration and at the targets",
        "record": "write what the targets show into a recording",
        "replay": "run the engine over recordings as fast as it can",
        "export": "write dashboards, alert rules or Kubernetes manifests for this configuration",
        "demo": "start the built-in demo fleet, with a page to start incidents, and watch it",
        "top": "the state of a running pdwatch in a terminal, live",
        "version": "print the version",
    }
)
"""Name of each command (its file in `agent/commands/`) and what it does."""

USAGE_ERROR = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors that are meant for the user become one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else USAGE_ERROR
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        name = "version"
    if name not in COMMANDS:
        return _refuse(f"unknown command {name!r}; {_nearest(name)}")
    try:
        command = import_module(f"agent.commands.{name}")
        parser = argparse.ArgumentParser(f"pdwatch {name}", description=COMMANDS[name], allow_abbrev=False)
        command.configure(parser)
        return int(command.main(parser.parse_args(rest)))
    except PdwatchError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): nothing is wrong, and nothing more can be said there.
        sys.stderr.close()
        return 0


def _refuse(message: str) -> int:
    print(f"pdwatch: {message}", file=sys.stderr)
    return USAGE_ERROR


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"did you mean {close[0]}?" if close else "known are " + ", ".join(COMMANDS)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            f"pdwatch {__version__}: observability and SLA watchdog for vLLM with prefill and decode pools",
            "",
            "usage: pdwatch COMMAND [arguments]",
            "",
            *lines,
            "",
            "pdwatch COMMAND --help says more about one of them.",
        ]
    )
