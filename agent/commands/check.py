"""`pdwatch check`. In: a configuration or addresses. Out: a report of what is wrong or weak; exit code 0, 1 or 2."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from agent.commands.arguments import add_targets, configured, length_of_time

if TYPE_CHECKING:
    from agent.check import Finding
    from agent.check.findings import Level
    from agent.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """The deployment, whether to ask it, how to tell."""
    add_targets(parser)
    parser.add_argument("--offline", action="store_true", help="ask nobody: look at the configuration alone")
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=length_of_time,
        help="time between the two pages of a target (default: one interval, from 2s to 10s)",
    )
    parser.add_argument(
        "--send-test", action="store_true", help="send a page marked as a test to every configured receiver"
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def main(args: argparse.Namespace) -> int:
    """Writes the report on stdout (0 clean, 1 warnings, 2 errors). An unusable configuration is a finding too."""
    from agent.check import Finding, Report, check
    from agent.check.documents import problems_of_file
    from agent.check.report import as_json, as_text
    from agent.config import unknown_variables
    from agent.errors import ConfigError

    help_ = "unset it, or correct its name"
    notes = [
        Finding("unknown_variable", "warning", ("environment",), text.removeprefix("environment: "), help_)
        for text in unknown_variables(os.environ)
    ]
    file = None if args.config is None else str(args.config)
    try:
        config = configured(args)
    except ConfigError as error:
        found = [Finding("configuration", "error", (), line) for line in problems_of_file(file, os.environ, error)]
        report = Report(None, file, (), (), (*found, *notes))
    else:
        if config is None:
            raise ConfigError("check: name what to check: -c FILE, or --prefill URL and --decode URL")
        answers = None
        if not args.offline:
            from agent.check.discovery import discovered
            from agent.check.fetch import ask, wait_between_pages
            from agent.check.sidecars import sidecar_findings

            config, found_targets = discovered(config)
            notes += [*found_targets, *sidecar_findings(config)]
            answers = ask(config, args.seconds or wait_between_pages(config))
        if args.send_test:
            notes += _sent_test_page(config)
        report = check(config, answers, notes)
    sys.stdout.write(json.dumps(as_json(report), indent=2) + "\n" if args.json else as_text(report))
    return report.exit_code


def _sent_test_page(config: Config) -> list[Finding]:
    """Sends the page now; what each receiver answered, as findings."""
    from agent.check import Finding
    from agent.outputs.delivery.test_page import send_test

    help_ = "correct the receiver's address or secret under alerting, and see that it can be reached from here"
    found = []
    for sent in send_test(config):
        text = f"the test page was {sent.text}" if sent.accepted else f"the test page did not arrive: {sent.text}"
        level: Level = "info" if sent.accepted else "error"
        found.append(Finding("test_page", level, (sent.receiver,), text, "" if sent.accepted else help_))
    if not found:
        text = "no receiver is configured, so no test page was sent"
        found.append(Finding("test_page", "error", ("alerting",), text, "configure a receiver under alerting"))
    return found
