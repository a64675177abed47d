"""pdwatch's own server behind a certificate: pages, and spans on the same address."""

import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from agent.config import ListenTls, load_config
from agent.errors import ConfigError
from agent.outputs.web import start_server
from agent.sources.listener_tls import ListenerCertificates
from tests.outputs import fleet


def certified(authority: trustme.CA, folder: Path) -> ListenTls:
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return ListenTls(str(folder / "cert.pem"), str(folder / "key.pem"))


async def fetch(url: str, authority: trustme.CA) -> int:
    """Its status, over a new connection."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        return answer.status


async def test_the_pages_are_served_over_tls_and_a_rotated_certificate_needs_no_restart(tmp_path: Path) -> None:
    live, first, second = fleet.live(), trustme.CA(), trustme.CA()
    runner = await start_server(live, "127.0.0.1:0", (), ListenerCertificates(certified(first, tmp_path)))
    try:
        assert live.listening.startswith("https://127.0.0.1:")
        assert await fetch(f"{live.listening}metrics", first) == 200
        certified(second, tmp_path)
        assert await fetch(f"{live.listening}metrics", second) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await fetch(f"{live.listening}metrics", first)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(live.listening.replace("https", "http"))
    finally:
        await runner.cleanup()


def test_the_section_is_read_with_paths_beside_the_file_and_needs_both_files(tmp_path: Path) -> None:
    path = tmp_path / "pdwatch.yaml"
    pools = 'pools: {d: {role: decode, targets: ["http://h:1"]}}\n'
    path.write_text(pools + "tls: {cert_file: cert.pem, key_file: key.pem}\n")
    config = load_config(path, {"PDWATCH_TLS_CLIENT_CA_FILE": "/etc/ca.pem"})
    assert config.tls == ListenTls(f"{tmp_path}/cert.pem", f"{tmp_path}/key.pem", "/etc/ca.pem")
    path.write_text(pools + "tls: {cert_file: cert.pem}\n")
    with pytest.raises(ConfigError, match="'key_file' is required"):
        load_config(path, {})
