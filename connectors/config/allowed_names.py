"""Refuses names in a configuration that the service does not allow (bridge.policy): each is an error of its key.

Looked for in the texts, before anything is loaded, opened or reached.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.errors import ConfigError
from bridge.mm2.replication_policy import TOPIC_MAP_FILE
from bridge.model.addresses import is_near, region_of
from bridge.model.jaas import JaasProblem, LoginModule, parse_jaas
from bridge.model.java_values import boolean, given, trimmed
from bridge.model.key_rules import KeyRule, Use
from bridge.model.values import Side
from bridge.policy import (
    AWS_ROLES,
    BOOTSTRAP,
    FOLDERS,
    OAUTH_HOSTS,
    PYTHON_MODULES,
    SPARK_KEYS,
    SPARK_MASTERS,
    Policy,
    allows,
    fits,
    fits_server,
)
from connectors.config.client_keys import looks_secret
from connectors.config.configdef import invalid
from connectors.config.spark_keys import HARMLESS, LOCAL_MASTER, NEED_A_VALUE
from connectors.ports import ClientCheck

PYTHON: Final = "python:"
OURS: Final = (
    "bridge.transforms",
    "bridge.policies",
    "bridge.mm2.filters",
    "bridge.mm2.replication_policy",
)
"""Modules that any configuration may name, with all below them."""
_MASTER = "spark.master"
_REMOTE = "spark.remote"
_PROTECTING = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
"""Keys of Spark that nobody turns off unasked."""
_TRANSFORM_KEY = re.compile(r"bridge\.transforms\..*\.(?P<own>[^.]*)")
_OAUTH_URL = "sasl.oauthbearer.token.endpoint.url"
_ENDPOINT = re.compile(r"(?ai)(?P<scheme>https?)://(?P<host>[a-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?([/?#].*)?")
"""Stricter than any client reads a URL: what it takes for the host, everybody does."""
_PORTS = {"http": "80", "https": "443"}
_BOOTSTRAP, _HOST_CHECK = "bootstrap.servers", "ssl.endpoint.identification.algorithm"
_MECHANISM, _IAM = "sasl.mechanism", "AWS_MSK_IAM"
_CALLBACKS, _IAM_CLASSES = "callback.handler.class", "software.amazon.msk."
_JAAS, _KEY_STORE, _TRUST_STORES = "sasl.jaas.config", "ssl.keystore.location", "ssl.truststore."
_KERBEROS, _KEYTAB, _ROLES = "Krb5LoginModule", "keyTab", ("awsRoleArn", "awsProfileName")
_WITH_USER = re.compile(r"://[^/]*@")
"""A URL with a user in it, and so perhaps a password."""
_MAP = ".map"
_OURS_IN_CONNECT = "bridge."
"""Before keys of Kafka that are the worker's, and not for the clusters' clients."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Refusing:
    """A ClientCheck that refuses more than another one."""

    clients: ClientCheck
    more: Callable[[Mapping[str, str]], Sequence[ConfigError]]

    def refused(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return [*self.clients.refused(props), *self.more(props)]

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return self.clients.check(props)

    def check_producer(self, side: Side, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return self.clients.check_producer(side, props)

    def rule(self, use: Use, name: str) -> KeyRule | None:
        return self.clients.rule(use, name)

    @property
    def properties(self) -> Collection[str]:
        return self.clients.properties


def allowed(clients: ClientCheck, policy: Policy) -> ClientCheck:
    """Refuses what the policy does not allow as well."""
    return Refusing(clients, lambda props: refused(props, policy))


def refused(props: Mapping[str, str], policy: Policy) -> list[ConfigError]:
    """Returns all errors at once, in the order of the keys."""
    props = given(props)
    signed = _signed_sides(props)
    return [
        ConfigError(
            key, invalid(key, "[hidden]" if looks_secret(key) or _WITH_USER.search(value) else value, why)
        )
        for key, value in props.items()
        for why in (*_why(key, value, policy), *_of_aws(key, value, signed, policy))
    ]


def code(props: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Returns, by key, the classes and functions that a configuration names in other modules than ours, without
    `python:`."""
    names = {
        key: [name for name in _python(key, value) if not _below(name, OURS)] for key, value in props.items()
    }
    return {key: names for key, names in names.items() if names}


def _why(key: str, value: str, policy: Policy) -> Iterator[str]:
    if key.startswith("spark."):
        yield from _spark(key, value, policy)
    if key == _BOOTSTRAP or key.endswith(f".{_BOOTSTRAP}"):
        yield from _servers(value, policy)
    if key == TOPIC_MAP_FILE:
        yield from _file(value, policy)
    if policy.open_to_others and not key.startswith(_OURS_IN_CONNECT):
        yield from _credentials(key, value, policy)
    if key == _OAUTH_URL or key.endswith(f".{_OAUTH_URL}"):
        yield from _token_endpoint(value, policy)
    for name in _python(key, value):
        if not _below(name, OURS) and not _below(name, policy.python_modules):
            module = name.rpartition(".")[0] or name
            yield (
                f"the service does not load {module}; it loads {', '.join(OURS)} and what {PYTHON_MODULES} names"
                + _now(policy.python_modules)
            )


def _spark(key: str, value: str, policy: Policy) -> Iterator[str]:
    by_value = fits(key, NEED_A_VALUE)
    permitted = allows(key, value, policy.spark_keys, by_value=by_value)
    if not fits(key, HARMLESS) and not permitted:
        named = key if not by_value else f"{key}={'VALUE' if looks_secret(key) else value}"
        yield (
            f"the service does not pass {key} on to Spark; docs/security.md has those that it does, and others "
            f"need {SPARK_KEYS}={named}{_now(policy.spark_keys)}"
        )
    elif _CONTROL.search(value):
        yield "it must hold no line breaks and no other control characters"
    elif key in _PROTECTING and boolean(value) is not True and not permitted:
        yield f"it must be true; anything else needs {SPARK_KEYS}={key}{_now(policy.spark_keys)}"
    elif key == _MASTER:
        if LOCAL_MASTER.fullmatch(value) is None and not fits(value, policy.spark_masters):
            yield (
                "the service starts Spark on its own machine (local, local[2], local[*]); any other master, which gets "
                f"the configuration's passwords, needs {SPARK_MASTERS}={value}{_now(policy.spark_masters)}"
            )
    elif key == _REMOTE:
        server = value.partition("/;")[0].rstrip("/")
        if not fits(server, policy.spark_masters):
            yield (
                "a Spark Connect server gets the configuration's passwords, and its answers are unpickled: it needs "
                f"{SPARK_MASTERS}={server}{_now(policy.spark_masters)}"
            )


def _servers(value: str, policy: Policy) -> Iterator[str]:
    if not policy.bootstrap:
        return
    for server in value.split(","):
        address = trimmed(server).rpartition("//")[2].lower()
        if address and not fits_server(address, policy.bootstrap):
            yield f"{address} is none of the servers that the service may connect to{_now(policy.bootstrap, BOOTSTRAP)}"


def _login_module(key: str, value: str) -> LoginModule | None:
    """The module of a JAAS text as the clients read it; what they can't read they refuse."""
    if not key.endswith(_JAAS):
        return None
    try:
        return parse_jaas(value)
    except JaasProblem:
        return None


def _credentials(key: str, value: str, policy: Policy) -> Iterator[str]:
    """Files of this machine by which who sends a configuration would be logged in as the service."""
    module = _login_module(key, value)
    kerberos = module is not None and module.simple_name == _KERBEROS
    keytab = kerberos and module is not None and bool(module.options.get(_KEYTAB))
    if not policy.folders and (keytab or (key.endswith(_KEY_STORE) and value)):
        yield (
            f"the service reads {'keytabs' if keytab else 'key stores'} only below the folders of {FOLDERS}, which is "
            "empty now: with others' it would log in wherever the configuration says"
        )
    if not policy.bootstrap and kerberos and not keytab:
        yield f"the tickets of the service's user are for the servers that {BOOTSTRAP} names, which is empty now"


def _signed_sides(props: Mapping[str, str]) -> frozenset[str]:
    """Returns the sides that may be logged in to with the service's own AWS credentials."""
    keys = [
        key
        for key, value in props.items()
        if (key.endswith(_MECHANISM) and value == _IAM)
        or (key.endswith(_CALLBACKS) and value.startswith(_IAM_CLASSES))
    ]
    sides = {str(side) for side in Side}
    return frozenset(side for key in keys for side in ({key.partition(".")[0]} & sides or sides))


def _of_aws(key: str, value: str, signed: Collection[str], policy: Policy) -> Iterator[str]:
    """A broker that is not AWS' could log in elsewhere with what it gets."""
    side = key.partition(".")[0]
    if not signed or (side in {str(side) for side in Side} and side not in signed):
        return
    module = _login_module(key, value) if policy.open_to_others else None
    for role in () if module is None else filter(None, map(module.options.get, _ROLES)):
        if not fits(role, policy.aws_roles):
            yield f"{role} is no role or profile that it may take{_now(policy.aws_roles, AWS_ROLES)}"
    if not policy.bootstrap and value and _TRUST_STORES in key and not key.startswith(_OURS_IN_CONNECT):
        yield (
            "logins by IAM are those of the service, which sends them only to brokers that the CAs of the system vouch "
            f"for; a trust store needs {BOOTSTRAP}, which is empty now"
        )
    if key.endswith(_HOST_CHECK) and not value:
        yield "logins by IAM are those of the service, which sends them only to brokers whose host name it has verified"
    if policy.bootstrap or not (key == _BOOTSTRAP or key.endswith(f".{_BOOTSTRAP}")):
        return
    for server in value.split(","):
        if trimmed(server) and region_of(server) is None:
            yield (
                f"logins by IAM are those of the service, and it sends them to brokers of MSK only "
                f"(*.kafka.REGION.amazonaws.com); {trimmed(server)} needs {BOOTSTRAP}, which is empty now"
            )


def _file(location: str, policy: Policy) -> Iterator[str]:
    """Client properties that name files are checked where the files are read. Of a map the names are seen on the
    target, so that it is none of those files."""
    if "\0" in location:
        yield "no file has a name with a NUL in it"
        return
    real = os.path.realpath(location)
    if location and not real.endswith(_MAP):
        yield f"the file of a topic map is named so, as topics{_MAP}: what it holds becomes names of topics"
    above = [os.path.realpath(folder) for folder in policy.folders]
    if location and above and not any(os.path.commonpath((text, real)) == text != real for text in above):
        yield f"it lies below no folder that this service allows; {FOLDERS} is {', '.join(policy.folders)}"


def _token_endpoint(value: str, policy: Policy) -> Iterator[str]:
    if value.lower().startswith("file:"):
        # That it lies below one of them is checked where it is read, as of all files.
        if not policy.folders:
            yield (
                "a token goes to whichever brokers the configuration names, so that the service reads one only below "
                f"the folders of {FOLDERS}, which is empty now"
            )
        return
    if not value:
        return
    match = _ENDPOINT.fullmatch(value)
    if not policy.token_endpoints:
        if match is None or _names_near(match["host"].lower()):
            yield (
                "it is an address of the service's own machine, or none that is certain not to be: there it asks for "
                f"tokens only where {OAUTH_HOSTS} names it, as host:port, and that is empty now"
            )
        return
    if match is not None:
        usual = _PORTS[match["scheme"].lower()]
        address = f"{match['host'].lower()}:{int(match['port'] or usual)}"
        hosts = (
            endpoint if ":" in endpoint else f"{endpoint}:{usual}" for endpoint in policy.token_endpoints
        )
        if fits_server(address, hosts):
            return
        named = f"{address} is"
    else:
        named = "its host is"
    yield f"{named} none of those that the service may ask for tokens{_now(policy.token_endpoints, OAUTH_HOSTS)}"


def _names_near(host: str) -> bool:
    """Whether a host is this machine, or one beside it, by its text: no name is looked up."""
    host = host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        # As the system reads it, 127.1 and 2130706433 too.
        address = ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return False
    return is_near(address)


def _python(key: str, value: str) -> Iterator[str]:
    """Yields the names that a value has with `python:`, in a list or alone. Parameters of transforms are not
    searched."""
    parameter = _TRANSFORM_KEY.fullmatch(key)
    if parameter is not None and parameter["own"] != "type":
        return
    if PYTHON not in value:  # a list of topics may have a megabyte
        return
    for item in value.split(","):
        name = trimmed(item)
        if name.startswith(PYTHON):
            yield name.removeprefix(PYTHON)


def _below(name: str, modules: Sequence[str]) -> bool:
    module = name.rpartition(".")[0]
    return any(text == "*" or f"{module}.".startswith(f"{text}.") for text in modules)


def _now(patterns: Sequence[str], setting: str = "") -> str:
    """Returns how a setting of the service is set, for an error."""
    if setting:
        return f"; {setting} is {','.join(patterns) or 'empty now'}"
    return f", which is {','.join(patterns)} now" if patterns else ", which is empty now"
