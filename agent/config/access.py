"""What one needs to be let in: secrets, authentication, TLS. Used by pools, routers and the senders of alerts.

A secret is given in place, or as a file that is read when it is needed (and again when it changes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agent.config.fields import FLAG, PATH, TEXT, Contradiction, Kind, section, setting
from agent.config.node import Node


def refuse_both(owner: object, name: str) -> None:
    """Raise Contradiction when a secret is given in place and as a file."""
    if getattr(owner, name) and getattr(owner, f"{name}_file"):
        raise Contradiction(f"{name}_file", f"give '{name}' or '{name}_file', not both")


@dataclass(frozen=True, slots=True)
class Auth:
    """HTTP authentication: a bearer token, or a user's name and password; each secret in place or from a file."""

    bearer_token: str | None = setting("bearer_token", TEXT, None, "Token sent as `Authorization: Bearer`", secret=True)
    bearer_token_file: str | None = setting("bearer_token_file", PATH, None, "File that holds the bearer token")
    username: str | None = setting("username", TEXT, None, "User's name for basic authentication")
    password: str | None = setting("password", TEXT, None, "Password for basic authentication", secret=True)
    password_file: str | None = setting("password_file", PATH, None, "File that holds the password")

    def __post_init__(self) -> None:
        refuse_both(self, "bearer_token")
        refuse_both(self, "password")
        token = self.bearer_token or self.bearer_token_file
        password = self.password or self.password_file
        if token and (self.username or password):
            raise Contradiction("username", "give a bearer token or a username with a password, not both")
        if password and not self.username:
            raise Contradiction("password", "a password needs a 'username' beside it")
        if self.username and not password:
            raise Contradiction("username", "a username needs a 'password' or 'password_file' beside it")

    @property
    def is_given(self) -> bool:
        """Anything to send at all."""
        return bool(self.bearer_token or self.bearer_token_file or self.username)


@dataclass(frozen=True, slots=True)
class Tls:
    """How a server's certificate is verified, and which one is shown to it."""

    ca_file: str | None = setting("ca_file", PATH, None, "Authorities to trust (PEM) in place of the system's")
    cert_file: str | None = setting("cert_file", PATH, None, "Client certificate (PEM)")
    key_file: str | None = setting("key_file", PATH, None, "Key of the client certificate (PEM)")
    insecure_skip_verify: bool = setting("insecure_skip_verify", FLAG, False, "Accept any certificate; for trials only")

    def __post_init__(self) -> None:
        if self.key_file and not self.cert_file:
            raise Contradiction("key_file", "a key needs a 'cert_file' beside it")


NO_AUTH = Auth()
DEFAULT_TLS = Tls()


@dataclass(frozen=True, slots=True)
class Access:
    """Authentication and TLS together, as one address or one group of targets has them."""

    auth: Auth = field(default=NO_AUTH)
    tls: Tls = field(default=DEFAULT_TLS)


AUTH = section(Auth)
TLS = section(Tls)


def web_url(node: Node) -> str:
    """An http or https URL with a host, no user and no fragment. Raises ConfigError."""
    text = node.scalar().strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise node.error(f"{_short(text)!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or "://" not in text:
        hint = f"; write http://{_short(text)}" if "://" not in text and not text.startswith("/") else ""
        raise node.error(f"{_short(text)!r} is not an http or https URL{hint}")
    if not parts.hostname or port == 0 or any(character.isspace() for character in text):
        raise node.error(f"{_short(text)!r} is not a URL with a host and a valid port")
    if parts.username is not None or parts.password is not None:
        raise node.error("a user or password inside a URL would be shown; give it under 'auth'")
    if parts.fragment:
        raise node.error(f"{_short(text)!r}: the part after # is never sent; leave it out")
    return text


URL = Kind("URL", web_url)


def _short(text: str) -> str:
    # What looks like a URL may hold a secret in its user, path or query: only scheme and host are repeated.
    scheme, separator, rest = text.partition("://")
    host = (rest if separator else scheme).split("/", 1)[0].split("?", 1)[0].rsplit("@", 1)[-1]
    return (scheme + separator if separator else "") + host[:80]
