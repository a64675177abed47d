"""Trials of the rules on vLLM's metrics. In: the configuration. Out: trials, played in a whole world.

Each fault tells the same story: an ordinary day, something just under the thresholds, the thing itself, and its end
with a restart that sets all counters back. At every mark exactly the named alerts fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.config import Config, Pool
from agent.export.rules.families import vllm_family
from agent.export.rules.identity import NO_DATA_ALERT, TARGET_FLAPS, rule_of
from agent.export.rules.trials.model import Check, Fired, Trial
from agent.export.rules.trials.objectives import breach_of, objective_trial
from agent.export.rules.trials.stage import Stage, marks
from agent.export.rules.trials.vllm_faults import Fault, Faults, Overrides
from agent.export.rules.trials.world import Phase
from agent.verdicts.alert_rules import OBJECTIVE_ALERT

STEP = 30.0


def vllm_trials(config: Config) -> tuple[Trial, ...]:
    """All trials with steps of half a minute."""
    stage = Stage(config, vllm_family(config))
    trials, faults = _Trials(stage), Faults(stage)
    return (
        trials.in_turn(list(faults.standing())),
        *(trials.of_fault(fault) for fault in faults.all()),
        trials.odd_engines(),
        *filter(None, [objective_trial(stage), trials.no_value()]),
        trials.low_traffic(),
        trials.first_pages(),
        trials.unreachable(),
        trials.missing(),
        trials.flapping(),
    )


class _Trials:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def of_fault(self, fault: Fault) -> Trial:
        stage = self._stage
        clear = 0 if fault.shown else int(max(fired.alert.keep_seconds for fired in fault.fired) // STEP)
        story = {
            pool.name: [
                stage.day(fault.day_steps),
                stage.day(fault.under_steps, **fault.under.get(pool.name, {})),
                stage.day(12),
                stage.day(fault.over_steps, **fault.over.get(pool.name, {})),
                stage.day(14 + clear, reset=True),
            ]
            for pool in stage.config.pools
        }
        at = marks(next(iter(story.values())))
        after = fault.fired if fault.shown else ()
        checks = [Check(at[0]), Check(at[1]), Check(at[2]), Check(at[3], fault.fired), Check(at[4], after)]
        names = sorted({fired.alert.name for fired in fault.fired})
        return Trial(f"{fault.name}: {', '.join(names)}", stage.series(story), tuple(checks))

    def in_turn(self, faults: Sequence[Fault]) -> Trial:
        """Several short faults, each of which is over before the next begins."""
        stage = self._stage
        story: dict[str, list[Phase]] = {pool.name: [stage.day(12)] for pool in stage.config.pools}
        for fault in faults:
            clear = int(max(fired.alert.keep_seconds for fired in fault.fired) // STEP)
            for name, phases in story.items():
                phases += [
                    stage.day(fault.under_steps, **fault.under[name]),
                    stage.day(6),
                    stage.day(fault.over_steps, **fault.over[name]),
                    stage.day(4 + clear),
                ]
        for phases in story.values():
            phases.append(stage.day(12, reset=True))
        at = marks(next(iter(story.values())))
        checks = [Check(at[0])]
        for number, fault in enumerate(faults):
            under, day, over, end = at[1 + 4 * number : 5 + 4 * number]
            checks += [Check(under), Check(day), Check(over, fault.fired), Check(end)]
        checks.append(Check(at[-1]))
        names = sorted({fired.alert.name for fault in faults for fired in fault.fired})
        title = ", then ".join(fault.name for fault in faults)
        return Trial(f"{title}: {', '.join(names)}", stage.series(story), tuple(checks))

    def odd_engines(self) -> Trial:
        """A second engine gets nothing, and of four decoding ones another is slower than the rest."""
        stage, silent, slow = self._stage, rule_of("engine_silent"), rule_of("rank_slow")
        lengths = (12, 14, 12, 26, 34)
        usual = [stage.day(sum(lengths))]
        fired: list[Fired] = []
        series: dict[str, str] = {}
        for pool in stage.config.pools:
            nothing = {"requests": 0, "running": 0}
            ranks = {"0": usual, "1": _phases(stage, lengths, nothing, nothing)}
            fired.append(stage.fired(silent.name, {}, scope=pool.name, target=stage.target(pool), engine="1"))
            if pool.role != "prefill":
                slower = _phases(stage, lengths, {"step": stage.step * 1.25}, {"step": stage.step * 1.75})
                ranks |= {"2": usual, "3": slower}
                fired.append(stage.fired(slow.name, scope=pool.name, target=stage.target(pool), engine="3"))
            for engine, phases in ranks.items():
                series |= stage.played(stage.place(pool, engine=int(engine)), phases)
            series[stage.place(pool).up] = f"1x{sum(lengths)}"
        at = marks(_phases(stage, lengths, {}, {}))
        checks = (Check(at[1]), Check(at[2]), Check(at[3], tuple(fired)), Check(at[4]))
        return Trial(f"engines apart from the rest: {silent.name}, {slow.name}", series, checks)

    def no_value(self) -> Trial | None:
        """Requests finish, and the sums that means are made of are not on the pages."""
        stage = self._stage
        objectives = [one for one in stage.config.objectives if stage.has(NO_DATA_ALERT, objective=one.name)]
        means = [one for one in objectives if one.statistic == "mean" and one.indicator in ("ttft", "tpot", "e2e")]
        if not means or means != objectives:
            return None
        fired = tuple(stage.fired(NO_DATA_ALERT, objective=one.name, scope=one.scope) for one in means)
        # With one request in flight the live mean does not stand in for what finished.
        sums = (
            "first_token_seconds_sum",
            "e2e_request_latency_seconds_sum",
            "output_token_seconds_sum",
            "decode_time_seconds_sum",
        )
        lacking = {"drop": sums, "requests": 32, "running": 1}
        phases = [stage.day(12), stage.day(24, **lacking), stage.day(6), stage.day(44, **lacking), stage.day(26)]
        at = marks(phases)
        checks = (Check(at[0]), Check(at[1]), Check(at[3], fired), Check(at[4]))
        story = {pool.name: phases for pool in stage.config.pools}
        return Trial(f"nothing to judge by: {NO_DATA_ALERT}", stage.series(story), checks)

    def low_traffic(self) -> Trial:
        """A slow request now and then, all of it bad: nothing that counts requests may say anything."""
        stage = self._stage
        bad = {"requests": 0.5, "failed": 0.5, "accepted": 0, "running": 1}
        slow = {"ttft": stage.ttft * 64, "step": stage.step * 64}
        story = {pool.name: [stage.day(40, **bad, **slow)] for pool in stage.config.pools}
        return Trial("one slow and failing request a minute", stage.series(story), (Check(600), Check(1190)))

    def first_pages(self) -> Trial:
        """Servers not seen before, whose first two pages show work and nothing done: nobody knows for how long."""
        busy = {"requests": 0, "running": 8, "deferred": 4, "in_progress": 4}
        phases = [self._stage.day(1, gone=True), self._stage.day(2, **busy), self._stage.day(12)]
        story = {pool.name: phases for pool in self._stage.config.pools}
        return Trial("first pages", self._stage.series(story), (Check(2 * STEP), Check(10 * STEP)))

    def unreachable(self) -> Trial:
        """Every server stops answering, and later all series end; that nobody answers is all that is said."""
        stage, rule = self._stage, rule_of("unreachable", whole_pool=True)
        fired = tuple(stage.fired(rule.name, {}, scope=pool.name) for pool in stage.config.pools)
        phases = [
            stage.day(12),
            stage.day(1, down=True),
            stage.day(6),
            stage.day(4, down=True),
            stage.day(14, reset=True),
            stage.day(24, gone=True),
        ]
        at = marks(phases)
        checks = (Check(at[1]), Check(at[2]), Check(at[3], fired), Check(at[4]), Check(at[5], fired))
        story = {pool.name: phases for pool in stage.config.pools}
        return Trial(f"nobody answers: {rule.name}", stage.series(story), checks)

    def missing(self) -> Trial:
        """A second engine leaves the page, and a counter that is needed leaves the others."""
        stage = self._stage
        series: dict[str, str] = {}
        fired: list[Fired] = []
        lacking = {"drop": ("request_success_total",)}
        phases = [stage.day(12), stage.day(9, **lacking), stage.day(12), stage.day(26, **lacking), stage.day(26)]
        for pool in stage.config.pools:
            others = [replace(phase, drop=("vllm:",)) if phase.drop else phase for phase in phases]
            series |= stage.played(stage.place(pool, engine=1), others) | stage.played(stage.place(pool), phases)
            where = {"target": stage.target(pool), "engine": "1"}
            missing = rule_of("metric_missing").name
            fired.append(stage.fired(missing, {"value": "1"}, scope=pool.name, target=stage.target(pool)))
            fired.append(stage.fired(rule_of("engine_missing").name, {}, scope=pool.name, **where))
        at = marks(phases)
        checks = (Check(at[1]), Check(at[2]), Check(at[3], tuple(fired)), Check(at[4]))
        names = sorted({one.alert.name for one in fired})
        return Trial(f"engines and metrics are missing: {', '.join(names)}", series, checks)

    def flapping(self) -> Trial:
        """Every fourth scrape of a pool fails while promises are broken, and a target elsewhere is down.

        Hold times do not begin again with a missed scrape, and one restart is no flapping.
        """
        stage, flaps, down = self._stage, rule_of(TARGET_FLAPS), rule_of("unreachable")
        pools = stage.config.pools
        blinking = pools[-1]
        fired = [
            stage.fired(flaps.name, scope=blinking.name, target=stage.target(blinking)),
            *(stage.fired(OBJECTIVE_ALERT, **labels) for labels in breach_of(stage)),
        ]
        whole = [stage.day(32), stage.day(40), stage.day(70)]
        story = {pool.name: whole for pool in pools}
        story[blinking.name] = [
            stage.day(32),
            stage.day(40, blink=True, requests=64, **stage.broken(blinking)),
            stage.day(70),
        ]
        series = stage.series(story)
        for pool in pools:
            if len(pool.targets) > 1:
                few = {"requests": 0.25}
                second = [stage.day(32, **few), stage.day(40, down=True), stage.day(70, reset=True, **few)]
                series |= stage.played(stage.place(pool, target=1), second)
                fired.append(stage.fired(down.name, {}, scope=pool.name, target=stage.target(pool, 1)))
        at = marks(whole)
        checks = (Check(at[0]), Check(at[1] - STEP, tuple(fired)), Check(at[2]))
        return Trial(f"scrapes fail: {flaps.name}, {down.name}", series, checks)

    def _alone(self, pool: Pool, phases: Sequence[Phase]) -> dict[str, str]:
        """The phases in one pool; the others have an ordinary day."""
        story = {other.name: [self._stage.day(_steps(phases))] for other in self._stage.config.pools}
        return self._stage.series({**story, pool.name: phases})


def _phases(stage: Stage, lengths: Sequence[int], under: Overrides, over: Overrides) -> list[Phase]:
    """An ordinary day, `under`, a day, `over`, and a day after a restart."""
    day, less, between, more, after = lengths
    return [
        stage.day(day),
        stage.day(less, **under),
        stage.day(between),
        stage.day(more, **over),
        stage.day(after, reset=True),
    ]


def _steps(phases: Sequence[Phase]) -> int:
    return sum(phase.steps for phase in phases)
