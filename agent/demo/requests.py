"""One user's request with its exact times. In: what the fleet does to it. Out: everything the truth is made of.

Times are unix seconds; None = has not happened. Frontend and engine stamp an output at the same moment here; what lies
between them is the tokenizing, before a leg is queued.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.demo.decode import DecodeEngine
    from agent.demo.drafting import Plan
    from agent.demo.prefill import PrefillEngine


class Request:
    """A request. `reason`: how its decode leg is to end, or ended; `gone`: its client went away."""

    __slots__ = (
        "arrived",
        "cached_tokens",
        "completion_tokens",
        "decode_arrived",
        "decode_engine",
        "decode_queued",
        "decode_scheduled",
        "fails",
        "fetch_ended",
        "first_step",
        "first_token",
        "gone",
        "lapsed",
        "last_token",
        "number",
        "plans",
        "prefill_arrived",
        "prefill_done",
        "prefill_engine",
        "prefill_queued",
        "prefill_scheduled",
        "prompt_tokens",
        "reason",
        "seen_accepted",
        "seen_tokens",
        "transfer_bytes",
        "transfer_seconds",
    )

    def __init__(
        self, number: int, arrived: float, prompt_tokens: int, cached_tokens: int, completion_tokens: int, reason: str
    ) -> None:
        self.number = number
        self.arrived = arrived
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = cached_tokens
        self.completion_tokens = completion_tokens
        self.reason = reason
        self.gone = False
        self.fails = False
        """Its KV cannot be loaded: the decode leg ends, or ended, with an error and without a token."""
        self.lapsed = False
        """Its KV lease ran out before it was read."""
        self.prefill_engine: PrefillEngine | None = None
        self.prefill_arrived = 0.0
        self.prefill_queued = 0.0
        self.prefill_scheduled = 0.0
        self.prefill_done: float | None = None
        self.decode_engine: DecodeEngine | None = None
        self.decode_arrived = 0.0
        self.decode_queued = 0.0
        self.decode_scheduled = 0.0
        self.fetch_ended: float | None = None
        self.transfer_seconds = 0.0
        self.transfer_bytes = 0
        self.first_step = 0
        """Number of the engine's step that gave the first token."""
        self.first_token: float | None = None
        self.last_token: float | None = None
        self.plans: list[Plan] = []
        self.seen_tokens = 0
        """Tokens that the engine's counters know of; likewise the accepted drafts by position."""
        self.seen_accepted: list[int] = []

    @property
    def kv_tokens(self) -> int:
        """The longest its context becomes; decode sets it aside before it fetches."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def tpot_seconds(self) -> float | None:
        """Decode time per token after the first, of a finished request with more than one token."""
        if self.last_token is None or self.first_token is None or self.completion_tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.completion_tokens - 1)

    @property
    def user_ttft_seconds(self) -> float | None:
        """From the user's arrival to the first token of the decode leg."""
        return None if self.first_token is None else self.first_token - self.arrived

    @property
    def ends_after_step(self) -> int:
        """How many steps its engine has completed when it ends, as planned now."""
        return self.plans[-1].first_step + self.plans[-1].steps if self.plans else self.first_step + 1

    def progress(self, step: int) -> tuple[int, list[int]]:
        """Tokens and accepted drafts by position, once its engine has completed `step` steps.

        Only for a step at or after its first token; a request of one token has no drafts: (1, []).
        """
        for plan in reversed(self.plans):
            if step >= plan.first_step:
                tokens, accepted = plan.after(step)
                return min(tokens, self.completion_tokens), accepted
        return 1, []
