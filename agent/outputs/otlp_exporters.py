"""The SDK's exporters, as settings and the standard variables ask for them. In: settings, environment. Out: a maker.

Variables of OpenTelemetry's that pdwatch has no setting for (headers, compression, certificates) are read by the
exporters themselves. Their logging is turned to one side: an export that fails is counted and told of by pdwatch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.sdk.metrics.export import MetricExporter

from agent.config import Otlp
from agent.errors import ConfigError

INTERVAL_SECONDS = 15.0
TIMEOUT_SECONDS = 10.0
SDK_LOGGERS = ("opentelemetry.exporter", "opentelemetry.sdk.metrics")


class Plan(NamedTuple):
    """How and how often to send. `make` may be called again after an exporter got stuck."""

    make: Callable[[], MetricExporter]
    interval_seconds: float
    timeout_seconds: float
    last_words: LastWords


class LastWords(logging.Handler):
    """Keeps the last messages of the SDK's exporters and passes none on: the last alone often lacks the reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: deque[str] = deque(maxlen=2)

    @property
    def text(self) -> str:
        """What they said, on one line."""
        return "; ".join(self._said)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self._said.append(" ".join(record.getMessage().split())[:300])

    def forget(self) -> None:
        """Before the next export: what is said then is about that one."""
        self._said.clear()


def wanted(settings: Otlp | None, environ: Mapping[str, str]) -> bool:
    """Whether metrics are to be sent: with the section, or with OTEL_METRICS_EXPORTER=otlp; a veto of OTEL_* holds."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    named = {name.strip().lower() for name in environ.get("OTEL_METRICS_EXPORTER", "").split(",") if name.strip()}
    return "otlp" in named or (settings is not None and named != {"none"})


def plan(settings: Otlp, environ: Mapping[str, str]) -> Plan:
    """Raises ConfigError where the exporter is not installed or a variable cannot be used."""
    protocol = settings.protocol or _first(
        environ, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", default="http/protobuf"
    )
    interval = (
        settings.interval_seconds or _number(environ, "OTEL_METRIC_EXPORT_INTERVAL", 1000 * INTERVAL_SECONDS) / 1e3
    )
    timeout = settings.timeout_seconds or _number(
        environ,
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
        _number(environ, "OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT_SECONDS),
    )
    return Plan(_maker(protocol, settings.endpoint, timeout), interval, timeout, _silenced())


def _maker(protocol: str, endpoint: str | None, timeout_seconds: float) -> Callable[[], MetricExporter]:
    if protocol == "http/protobuf":
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
        except ImportError:
            raise ConfigError("otlp: the exporter is not installed; install pdwatch[otlp]") from None
        address = _with_path(endpoint) if endpoint else None
        return lambda: HttpExporter(endpoint=address, timeout=timeout_seconds)
    if protocol == "grpc":
        try:
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
        except ImportError:
            raise ConfigError("otlp.protocol: grpc is not installed; install pdwatch[grpc]") from None
        return lambda: GrpcExporter(endpoint=endpoint, timeout=timeout_seconds)
    raise ConfigError(f"otlp.protocol: {protocol!r} is not supported; choose http/protobuf or grpc")


def _silenced() -> LastWords:
    words = LastWords()
    for name in SDK_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [words]
        logger.propagate = False
    return words


def _with_path(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return endpoint if parts.path not in ("", "/") else urlunsplit(parts._replace(path="/v1/metrics"))


def _first(environ: Mapping[str, str], *names: str, default: str) -> str:
    return next((text for name in names if (text := environ.get(name, "").strip().lower())), default)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ConfigError(f"{name}: {text!r} is not a number above 0")
    return number
