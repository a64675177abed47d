"""Certificates of pdwatch's own listeners: rotated while it runs, refused with a sentence when they cannot be used."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from agent.config import ListenTls
from agent.errors import ConfigError
from agent.sources.listener_tls import ListenerCertificates


def issue(authority: trustme.CA, folder: Path, key_of: trustme.CA | None = None) -> ListenTls:
    """Writes a certificate for localhost into the folder's two files; `key_of`: with the key of another one."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    other = issued if key_of is None else key_of.issue_cert("localhost")
    other.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return ListenTls(str(folder / "cert.pem"), str(folder / "key.pem"))


@asynccontextmanager
async def listening(certificates: ListenerCertificates) -> AsyncIterator[int]:
    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=certificates.server_context())
    async with server:
        yield server.sockets[0].getsockname()[1]


async def greeted(port: int, authority: trustme.CA, client: trustme.LeafCert | None = None) -> bool:
    """Whether a client that trusts this authority gets its greeting."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        said = await reader.read()
    except (ssl.SSLError, ConnectionError):
        return False
    writer.close()
    return said == b"hello"


async def test_a_rotated_certificate_is_shown_to_the_next_client(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    certificates = ListenerCertificates(issue(first, tmp_path))
    async with listening(certificates) as port:
        assert (await greeted(port, first), await greeted(port, second)) == (True, False)
        issue(second, tmp_path)
        assert (await greeted(port, first), await greeted(port, second)) == (False, True)


async def test_a_rotation_that_is_half_done_leaves_the_old_certificate_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = trustme.CA(), trustme.CA()
    certificates = ListenerCertificates(issue(first, tmp_path))
    caplog.set_level(logging.WARNING)
    async with listening(certificates) as port:
        issue(second, tmp_path, key_of=first)
        assert await greeted(port, first)
        assert await greeted(port, first)
        assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
            "the key is not that of the certificate"
        ]
        (tmp_path / "cert.pem").unlink()
        assert await greeted(port, first)
        issue(second, tmp_path)
        assert await greeted(port, second)


async def test_with_authorities_for_clients_only_theirs_get_in(tmp_path: Path) -> None:
    server, clients = trustme.CA(), trustme.CA()
    tls = issue(server, tmp_path)
    clients.cert_pem.write_to_path(tmp_path / "clients.pem")
    certificates = ListenerCertificates(ListenTls(tls.cert_file, tls.key_file, str(tmp_path / "clients.pem")))
    assert certificates.needs_client
    async with listening(certificates) as port:
        assert await greeted(port, server, clients.issue_cert("prometheus.example"))
        assert not await greeted(port, server)
        assert not await greeted(port, server, server.issue_cert("stranger.example"))


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("cert.pem", None, "cert.pem: cannot be read: No such file"),
        ("key.pem", None, "key.pem: cannot be read: No such file"),
        ("key.pem", "no key", "key.pem: cannot be used for TLS"),
        ("cert.pem", "", "cert.pem, .*key.pem: cannot be used for TLS"),
        ("clients.pem", "nobody", "clients.pem: cannot be used for TLS"),
    ],
)
def test_files_that_cannot_be_used_at_the_start_are_named(
    tmp_path: Path, file: str, content: str | None, says: str
) -> None:
    tls = issue(trustme.CA(), tmp_path)
    trustme.CA().cert_pem.write_to_path(tmp_path / "clients.pem")
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=f"tls: .*{says}"):
        ListenerCertificates(ListenTls(tls.cert_file, tls.key_file, str(tmp_path / "clients.pem")))


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    tls = issue(trustme.CA(), tmp_path)
    key = load_pem_private_key(Path(tls.key_file).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    Path(tls.key_file).write_bytes(locked)
    with pytest.raises(ConfigError, match="passphrase"):
        ListenerCertificates(tls)
