"""Logins by Kerberos with a gssapi of the test's own: whose tickets are used, and what its errors become."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.login import KerberosAuthenticator

WRONG_KEY, NO_CACHE, NO_KDC = 2529638943, 2529639107, 2529639068
"""As MIT's library gave them here."""


class GSSError(Exception):
    def __init__(self, min_code: int) -> None:
        super().__init__(f"Minor ({min_code}):\nas MIT says")
        self.min_code = min_code


class Gssapi(ModuleType):
    """One token each way, and the layers."""

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.given: list[dict[str, Any]] = []
        self.fails = 0
        self.exceptions = SimpleNamespace(GSSError=GSSError)
        self.NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
        self.MechType = SimpleNamespace(kerberos="kerberos")

    def Name(self, text: str, name_type: str) -> Any:
        return SimpleNamespace(text=text, kind=name_type, canonicalize=lambda mech: f"{text} by {mech}")

    def Credentials(self, **given: Any) -> object:
        if self.fails:
            raise GSSError(self.fails)
        self.given.append(given)
        return "credentials"

    def SecurityContext(self, **given: Any) -> Any:
        if self.fails:
            raise GSSError(self.fails)
        self.given.append(given)
        context = SimpleNamespace(complete=False)

        def step(token: bytes | None) -> bytes | None:
            context.complete = token is not None
            return b"first" if token is None else None

        context.step = step
        context.unwrap = lambda token: SimpleNamespace(message=b"\x07\x00\x10\x00")
        context.wrap = lambda message, _: SimpleNamespace(message=b"wrapped " + message)
        return context


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Gssapi:
    library = Gssapi()
    monkeypatch.setitem(sys.modules, "gssapi", library)
    return library


def talk(principal: str | None, keytab: str | None) -> list[tuple[bytes, bool] | None]:
    async def steps() -> list[tuple[bytes, bool] | None]:
        login = KerberosAuthenticator(asyncio.get_running_loop(), "kafka@b1", principal, keytab)
        return [await login.step(challenge) for challenge in (None, b"of the broker", b"layers", b"")]

    return asyncio.run(steps())


SAID = [(b"first", True), (b"", True), (b"wrapped \x01\x00\x10\x00kafka@b1", False), None]


def test_the_ticket_is_of_the_keytab(library: Gssapi) -> None:
    assert talk("mirror@R", "/k") == SAID
    made, context = library.given
    assert made["name"].text == "mirror@R"
    assert made["store"] == {"client_keytab": "FILE:/k", "ccache": "MEMORY:mirror@R /k"}
    assert (context["creds"], context["name"]) == ("credentials", "kafka@b1 by kerberos")


def test_without_a_keytab_it_is_of_the_users_cache(library: Gssapi) -> None:
    assert talk(None, None) == SAID
    (context,) = library.given
    assert context["creds"] is None


@pytest.mark.parametrize(("code", "text"), [(WRONG_KEY, "as MIT says"), (NO_CACHE, "no key of mirror@R")])
def test_what_somebody_has_to_correct(library: Gssapi, code: int, text: str) -> None:
    library.fails = code
    with pytest.raises(KafkaFailure, match=text) as failed:
        talk("mirror@R", "/k")
    assert (failed.value.fault, failed.value.retriable) == (KafkaFault.CREDENTIALS, False)


@pytest.mark.parametrize(("code", "keytab"), [(NO_KDC, "/k"), (NO_CACHE, None)])
def test_what_comes_by_itself(library: Gssapi, code: int, keytab: str | None) -> None:
    library.fails = code
    with pytest.raises(KafkaConnectionError, match="Kerberos: Minor"):
        talk("mirror@R", keytab)
