"""The whole process, told to stop while a collector holds its export: it is gone within five seconds (case C40)."""

import asyncio
import os
import signal
import sys
import time

import pytest


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_a_collector_that_never_answers_does_not_hold_the_end(protocol: str):
    reached = asyncio.Event()
    held = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read(1)
        reached.set()
        await reader.read()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    environ = {
        **os.environ,
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }
    code = "from agent.cli import main; raise SystemExit(main())"
    arguments = ["run", "--decode", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments, env=environ)
    try:
        async with asyncio.timeout(60):
            await reached.wait()
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        async with asyncio.timeout(20):
            assert await process.wait() == 0
        assert time.monotonic() - began < 5.0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        for writer in held:
            writer.close()
        server.close()
