"""SASL: from `sasl.mechanism` and `sasl.jaas.config` to one value that both clients can be given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec

from bridge.kafka.config import oauth
from bridge.kafka.config.files import UnreadableFile
from bridge.kafka.config.oauth import Login, Unsecured, is_function, needs_no_module, read_msk_iam, read_oauth
from bridge.kafka.config.properties import ClientProps
from bridge.kafka.config.tokens import LibraryTokens
from bridge.model.jaas import JaasProblem, LoginModule, parse_jaas

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    oauth.MECHANISM: oauth.LOGIN_MODULE,
}
_JAAS, _MECHANISM, _SERVICE = "sasl.jaas.config", "sasl.mechanism", "sasl.kerberos.service.name"
_CLIENT_CALLBACKS, _LOGIN_CALLBACKS = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
)
Setting = str | int | float | LibraryTokens
"""Of librdkafka."""
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/@-]{0,254}")
_NO_KINIT = {"sasl.kerberos.min.time.before.relogin": "0"}
"""The ticket is somebody else's to get. librdkafka runs kinit otherwise, and wants a keytab and a principal for it."""
_KEYTAB = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/@+=,-]{0,1022}")


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL settings. `kerberos` are librdkafka's own, and empty for all mechanisms but GSSAPI."""

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    login: Login | None = None
    service_name: str = "kafka"
    kerberos: Mapping[str, str] = field(default_factory=dict, hash=False)

    def librdkafka(self) -> dict[str, Setting]:
        settings: dict[str, Setting] = {"sasl.mechanism": self.mechanism, **self.kerberos}
        if self.username is not None:
            settings |= {"sasl.username": self.username, "sasl.password": self.password or ""}
        if isinstance(self.login, Unsecured):
            extensions = "".join(
                f" extension_{name}={value}" for name, value in self.login.extensions.items()
            )
            settings |= {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={self.login.subject}{extensions}",
            }
        elif self.login is not None:
            settings["oauth_cb"] = LibraryTokens(self.login)
        return settings


def read_sasl(props: ClientProps) -> Sasl | None:
    """Reads the SASL settings; None when something is wrong, which is then in `props.errors`."""
    mechanism = props.get(_MECHANISM) or "GSSAPI"
    if mechanism not in _MODULES:
        props.reject(_MECHANISM, f"the service's clients have {', '.join(_MODULES)}")
        return None
    if mechanism == "GSSAPI" and (lacking := kerberos_lacking()):
        why = f"Kerberos can't be used here: {lacking}; without sasl.mechanism GSSAPI is the default"
        props.reject(_MECHANISM, why)
        return None
    if not _callbacks_fit(props, mechanism):
        return None
    module = _module(props, mechanism)
    if module is None:
        return None
    if mechanism in ("OAUTHBEARER", oauth.MECHANISM):
        login = read_oauth(props, module) if mechanism == "OAUTHBEARER" else read_msk_iam(props, module)
        return None if login is None else Sasl("OAUTHBEARER", login=login)
    if mechanism == "GSSAPI":
        return _kerberos(props, module)
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        props.reject(_JAAS, f"{module.simple_name} needs the options username and password")
        return None
    if module.options.get("tokenauth", "false").lower() == "true":
        props.reject(_JAAS, "delegation tokens (tokenauth) are not supported; use a user and a password")
        return None
    return Sasl(mechanism, username, password)


def _callbacks_fit(props: ClientProps, mechanism: str) -> bool:
    """Whether the handlers are of this mechanism; those that no mechanism has are refused by their rules."""
    before = len(props.errors)
    login = props.get(_LOGIN_CALLBACKS)
    if (is_function(login) or login == oauth.LOGIN_CALLBACKS) and mechanism != "OAUTHBEARER":
        props.reject(
            _LOGIN_CALLBACKS, f"it gets tokens for the mechanism OAUTHBEARER, and {_MECHANISM} is {mechanism}"
        )
    if props.get(_CLIENT_CALLBACKS) == oauth.CLIENT_CALLBACKS and mechanism != oauth.MECHANISM:
        props.reject(
            _CLIENT_CALLBACKS, f"it is for the mechanism {oauth.MECHANISM}, and {_MECHANISM} is {mechanism}"
        )
    return len(props.errors) == before


def _module(props: ClientProps, mechanism: str) -> LoginModule | None:
    expected = _MODULES[mechanism]
    if not props.get(_JAAS):
        if mechanism == "OAUTHBEARER" and needs_no_module(props):
            return LoginModule(expected, {})
        props.missing(_JAAS, f"{mechanism} needs {expected} required ...;")
        return None
    try:
        module = parse_jaas(props.get(_JAAS))
    except JaasProblem as problem:
        props.reject(_JAAS, str(problem))
        return None
    # By simple name: distributions that move Kafka's classes to packages of their own keep those.
    if module.simple_name != expected.rpartition(".")[2]:
        props.reject(
            _JAAS, f"the login module does not fit the mechanism {mechanism}, which needs {expected}"
        )
        return None
    return module


def _kerberos(props: ClientProps, module: LoginModule) -> Sasl | None:
    """Reads the settings of GSSAPI. librdkafka hands keytab and principal to a shell, in which kinit runs: so both are
    plain words."""
    options, before = module.options, len(props.errors)
    principal, keytab = options.get("principal", ""), options.get("keyTab", "")
    service = props.get(_SERVICE) or options.get("serviceName") or "kafka"
    if _WORD.fullmatch(service) is None:
        key = _SERVICE if props.get(_SERVICE) else _JAAS
        props.reject(key, f"the service name (serviceName) {_plain('._-')}")
    if principal and _PRINCIPAL.fullmatch(principal) is None:
        props.reject(_JAAS, f"principal {_plain('._/@-')}")
    if keytab and _KEYTAB.fullmatch(keytab) is None:
        props.reject(_JAAS, f"keyTab {_plain('._/@+=,-')}")
    elif keytab:
        try:
            props.files.read(keytab)
        except UnreadableFile as why:
            props.reject(_JAAS, f"keyTab {keytab}: the service can't read the file: {why}")
    if len(props.errors) > before:
        return None
    settings = {_SERVICE: service}
    if keytab:
        settings["sasl.kerberos.keytab"] = keytab
    if principal:
        settings["sasl.kerberos.principal"] = principal
    if keytab and principal:
        login = f"-t {shlex.quote(keytab)} -k {shlex.quote(principal)}"
        settings["sasl.kerberos.kinit.cmd"] = f"kinit -R {login} || kinit {login}"
    else:
        settings |= _NO_KINIT
    return Sasl("GSSAPI", service_name=service, kerberos=settings)


def _plain(signs: str) -> str:
    return f"must be of letters, digits and {' '.join(signs)} only, and begin with a letter or a digit: kinit gets it"


@cache
def kerberos_lacking() -> str:
    """Returns what is missing for GSSAPI on this machine, "" when nothing is."""
    from confluent_kafka import Consumer, KafkaException  # loads the client

    lacking = []
    try:
        settings = {"group.id": "check", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
        settings |= {"log_level": "0", **_NO_KINIT}
        Consumer(settings).close()
    except KafkaException:
        lacking.append("librdkafka was built without it (install confluent-kafka from source with libsasl2)")
    if find_spec("gssapi") is None:
        lacking.append("the Python package gssapi is not installed")
    return "; ".join(lacking)
