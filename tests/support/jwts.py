"""JWTs that a broker verifies by a set of keys in a file, as an identity provider would sign them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bridge.local.security import AUDIENCE, ISSUER


class Signer:
    """An identity provider's key; `jwks` is the file that brokers read (Security)."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": "own",
            "use": "sig",
            "alg": "RS256",
            "n": _encoded(numbers.n.to_bytes(256, "big")),
            "e": _encoded(numbers.e.to_bytes(3, "big")),
        }
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [key]}))

    def token(self, subject: str, seconds: float) -> str:
        """Valid for so many seconds."""
        now = time.time()
        head = {"alg": "RS256", "typ": "JWT", "kid": "own"}
        said = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now), "exp": now + seconds}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, said))
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"


def unsigned(subject: str, expires_at: float) -> str:
    """A JWT that nobody verifies."""
    parts = ({"alg": "none"}, {"sub": subject, "exp": expires_at})
    return ".".join(_encoded(json.dumps(part).encode()) for part in parts) + ".c2ln"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
