"""Which boards there are. In: the configuration. Out: all of them, in the order of reading.

Two families that mirror each other: on pdwatch's metrics, and on vLLM's own for sites where no pdwatch runs.
"""

from __future__ import annotations

from agent.config import Config
from agent.export.dashboards.capacity import capacity_board
from agent.export.dashboards.decode import decode_board
from agent.export.dashboards.frame import Board
from agent.export.dashboards.itself import itself_board
from agent.export.dashboards.kv_transfer import kv_transfer_board
from agent.export.dashboards.memory import memory_board
from agent.export.dashboards.overview import overview
from agent.export.dashboards.prefill import prefill_board
from agent.export.dashboards.speculation import speculation_board
from agent.export.dashboards.vllm_decode import vllm_decode
from agent.export.dashboards.vllm_kv_transfer import vllm_kv_transfer
from agent.export.dashboards.vllm_overview import vllm_overview
from agent.export.dashboards.vllm_prefill import vllm_prefill
from agent.export.dashboards.vllm_speculation import vllm_speculation


def boards(config: Config) -> tuple[Board, ...]:
    """Every board, for these objectives and links."""
    return (
        overview(config),
        prefill_board(config),
        decode_board(config),
        kv_transfer_board(config),
        speculation_board(config),
        memory_board(config),
        capacity_board(config),
        itself_board(config),
        vllm_overview(config),
        vllm_prefill(config),
        vllm_decode(config),
        vllm_kv_transfer(config),
        vllm_speculation(config),
    )
