"""Tokens in a file that somebody else keeps up to date, as Java's FileJwtRetriever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.tokens import NoToken, Token, claims, expiry, principal

_MOST = 64 << 10


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A Source. The file is read again for each login, so that a token which was replaced early counts at once."""

    path: str
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        try:
            text = Files(most=_MOST).read(self.path).decode("ascii").strip()
        except UnreadableFile as why:
            raise NoToken(f"the file can't be read: {why}", passing=True) from None
        except UnicodeDecodeError:
            raise NoToken("the file holds something else than a token") from None
        payload = claims(text)
        return Token(text, expiry(payload), principal(payload), self.extensions)

    @property
    def name(self) -> str:
        return self.path

    @property
    def keeps(self) -> bool:
        return False

    def identity(self) -> object:
        return ["file", self.path, dict(self.extensions)]


def is_file_url(url: str) -> bool:
    return url.lower().startswith("file:")


def path_of(url: str) -> str | None:
    """The path that a file: URL names; None where it names none of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not path.startswith("/"):
        return None
    return path
