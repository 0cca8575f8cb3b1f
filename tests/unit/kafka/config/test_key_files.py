"""Private keys on their way to TLS: never in a file that somebody could read, or that stays behind."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from bridge.kafka.config.tls import KeyPair, Tls
from bridge.local.security import make_tls

PEM_KEY = "BEGIN PRIVATE KEY"


@pytest.fixture
def own(tmp_path: Path) -> KeyPair:
    key, _, certificates = make_tls(tmp_path / "tls").client.read_text().partition("-----BEGIN CERTIFICATE")
    return KeyPair(key, "-----BEGIN CERTIFICATE" + certificates)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Of each file that TLS reads a key from: its path, its text, its mode."""
    collected: list[tuple[str, str, int]] = []
    load = ssl.SSLContext.load_cert_chain

    def spy(context: ssl.SSLContext, path: str, **arguments: str) -> None:
        collected.append((str(Path(path).readlink()) if Path(path).is_symlink() else path, *_read(path)))
        load(context, path, **arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    return collected


def _read(path: str) -> tuple[str, int]:
    return Path(path).read_text(), os.stat(path).st_mode & 0o777


def test_a_key_is_in_memory_only(
    own: KeyPair, loaded: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    Tls(None, own, check_host=True).context()
    ((path, text, _),) = loaded
    assert path.startswith("/memfd:")
    assert PEM_KEY in text


def test_a_key_is_locked_where_a_file_lies_on_a_disk(
    own: KeyPair, loaded: list[tuple[str, str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a system without files in memory: what a killed process leaves there helps nobody."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Tls(None, own, check_host=True).context()
    ((path, text, mode),) = loaded
    assert (Path(path).parent, mode) == (tmp_path, 0o600)
    assert PEM_KEY not in text
    with pytest.raises(TypeError, match="encrypted"):
        serialization.load_pem_private_key(text.encode(), None)
    assert [each.name for each in tmp_path.iterdir()] == ["tls"]
