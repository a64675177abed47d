"""What is wrong or weak in a configuration and at its targets. In: a configuration, answers. Out: a `Report`.

findings, words, flags, buckets      all codes, numbers as text, vLLM's flags, bucket edges
documents, configuration             what files and settings show by themselves
discovery, sidecars                  finding targets, and asking those beside them
fetch, seen                          asking the targets, and reading what they answered
targets, pools, traffic              what pages show, alone and together
outlook, promises                    what each objective can expect of them
report                               as text and as JSON
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.check.configuration import configuration_findings, readable_file
from agent.check.findings import Finding, exit_code, gathered
from agent.check.outlook import outlook
from agent.check.pools import deployment_findings, pool_findings
from agent.check.promises import promise_findings
from agent.check.report import Report
from agent.check.seen import Answer, see, seen_target
from agent.check.targets import router_findings, target_findings
from agent.check.traffic import role_findings
from agent.config import Config

__all__ = ["Answer", "Finding", "Report", "check", "exit_code"]


def check(
    config: Config,
    answers: Iterable[Answer] | None,
    notes: Iterable[Finding] = (),
    is_readable: Callable[[str], bool] = readable_file,
) -> Report:
    """Everything there is to say. `answers` None: nobody was asked (`--offline`); `notes`: what is known already."""
    given = list(answers or ())
    pools = see(config, given)
    outlooks = [outlook(config, objective, pools) for objective in config.objectives]
    found = [*notes, *configuration_findings(config, is_readable)]
    if answers is not None:
        for pool in pools:
            for target in pool.targets:
                found += target_findings(config, pool, target)
            found += pool_findings(pool)
            found += role_findings(pool)
        found += deployment_findings(pools)
        routers = config.router.targets if config.router else ()
        by_name = {answer.target: answer for answer in given}
        seen = [seen_target(t.name, "", "router", by_name[t.name], config.prefix) for t in routers if t.name in by_name]
        found += router_findings(config, {target.name: target for target in seen})
    found += promise_findings(config, outlooks, pools)
    asked = pools if answers is not None else []
    return Report(config.deployment, config.file, tuple(asked), tuple(outlooks), tuple(gathered(found)))
