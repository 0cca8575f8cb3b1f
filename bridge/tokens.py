"""Bearer tokens of the service, from its settings or from files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

_LONGEST_FILE = 1 << 16
_MOST = 2
"""The token in use, and the one that replaces it."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Bearer tokens, by what they allow. Without any, nobody has to show one."""

    changing: tuple[str, ...] = field(default=(), repr=False)
    reading: tuple[str, ...] = field(default=(), repr=False)


LEAST = 22
"""Characters of a token of 128 bits, in Base64."""


def remarks(name: str, tokens: Sequence[str], path: Path | None) -> Iterator[str]:
    """Yields what is weak about the tokens of a setting, or about who may read their file; shows none of them."""
    setting = name if path is None else f"{name}_file {path}"
    shortest = min(map(len, tokens), default=LEAST)
    if shortest < LEAST:
        yield (
            f"{setting} has a token of {shortest} character(s), which can be guessed: take {LEAST} or more "
            "(openssl rand -hex 32)"
        )
    if path is not None:
        with suppress(OSError):
            status = path.stat()
            mode = status.st_mode & 0o777
            # Where it is somebody else's, we read it as one of its group: a mounted secret of Kubernetes, say.
            if mode & (0o077 if status.st_uid == os.geteuid() else 0o007):
                yield f"{setting} may be read by others than its owner (mode {mode:04o}): chmod 600 it"


def check_token(token: str) -> None:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token must be printable ASCII without spaces, at least one character")


def read_tokens(name: str, secret: SecretStr | None, path: Path | None) -> tuple[str, ...]:
    """The tokens of a setting, or of its file. Raises ValueError, which names the setting and shows no token."""
    if secret is not None:
        return (secret.get_secret_value(),)
    if path is None:
        return ()
    try:
        tokens = _lines(path)
        if not 1 <= len(tokens) <= _MOST:
            raise ValueError(
                f"has {len(tokens)} tokens; give one, or two on a line each while you replace it"
            )
        for token in tokens:
            check_token(token)
    except OSError as error:
        raise ValueError(f"{name}_file can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}_file is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{name}_file: {error}") from None
    return tokens


def _lines(path: Path) -> tuple[str, ...]:
    with path.open("rb") as file:
        text = file.read(_LONGEST_FILE).decode("utf-8")
    return tuple(line.strip() for line in text.splitlines() if line.strip())
