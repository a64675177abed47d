"""What was configured. In: a YAML file, the environment, flags. Out: one frozen `Config`, or a `ConfigError`
of one line.

types, pools, discovery, objectives, alerting, mute, access, listening   the values
fields, node, document, quantities            how a value is read, and how an error says where
load                                          file, environment and flags together
masking, reference                            how it is shown, and the list of all settings
"""

from agent.config.access import Access, Auth, Tls
from agent.config.alerting import Alerting, Alertmanager, PagerDuty, Slack, Webhook
from agent.config.discovery import Discovery, Dns, FileSd, HttpSd, Kubernetes
from agent.config.listening import ListenTls, listen_address
from agent.config.load import config_from_flags, config_from_names, load_config, unknown_variables
from agent.config.masking import masked
from agent.config.mute import Mute
from agent.config.objectives import Objective, default_objectives
from agent.config.otlp import Otlp
from agent.config.pools import Pool, Router, Target
from agent.config.quantities import duration_seconds, duration_text, size_bytes
from agent.config.recorded import config_with_recorded
from agent.config.tracing import Forward, Traces
from agent.config.types import Config, Contract, Links, Memory, Scrape

__all__ = [
    "Access",
    "Alerting",
    "Alertmanager",
    "Auth",
    "Config",
    "Contract",
    "Discovery",
    "Dns",
    "FileSd",
    "Forward",
    "HttpSd",
    "Kubernetes",
    "Links",
    "ListenTls",
    "Memory",
    "Mute",
    "Objective",
    "Otlp",
    "PagerDuty",
    "Pool",
    "Router",
    "Scrape",
    "Slack",
    "Target",
    "Tls",
    "Traces",
    "Webhook",
    "config_from_flags",
    "config_from_names",
    "config_with_recorded",
    "default_objectives",
    "duration_seconds",
    "duration_text",
    "listen_address",
    "load_config",
    "masked",
    "size_bytes",
    "unknown_variables",
]
