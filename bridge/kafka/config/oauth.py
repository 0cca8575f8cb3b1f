"""Tokens for OAUTHBEARER: by client credentials from an identity provider, and those that nobody has signed.

Logins of AWS MSK by IAM: tokens that the package aws-msk-iam-sasl-signer-python signs, for OAUTHBEARER.

Java's clients log in with a mechanism of their own, AWS_MSK_IAM; MSK takes OAUTHBEARER on the same port, with the same
rights. The signer is imported late: few configurations need it, and it is installed by an extra.

Which token a client logs in with: from its properties to one of the ways that there are.

Python modules that logins of a configuration need, wherever its clients run.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from bridge.environment import near_endpoints_refused
from bridge.kafka.config.files import UnreadableFile
from bridge.kafka.config.properties import ClientProps
from bridge.kafka.config.property_names import MSK_IAM
from bridge.kafka.config.tokens import (
    PYTHON,
    TOKEN_FILE_BYTES,
    NoToken,
    Token,
    TokenFile,
    TokenFunction,
    is_file_url,
    path_of,
)
from bridge.model import addresses
from bridge.model.addresses import is_near, parse_address
from bridge.model.jaas import LoginModule
from bridge.model.java_values import split_list, trimmed

HTTP_HOSTS = "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"
"""Variable of the environment: hosts whose token endpoints may be asked over http, with commas between them."""
SECONDS = 9.5
"""For a whole response: less than what the keeper of tokens waits, so that the reason is ours."""
_LIFE = 300.0
"""Seconds, where the provider does not say how long a token lives."""
_LONGEST_LIFE = 10 * 365 * 86_400.0
_UNSECURED_LIFE = 3600.0
_LIMIT = 64 << 10
"""Of a response: tokens have some thousands."""
MECHANISM = "AWS_MSK_IAM"
LOGIN_MODULE = MSK_IAM + "IAMLoginModule"
CLIENT_CALLBACKS = MSK_IAM + "IAMClientCallbackHandler"
LOGIN_CALLBACKS = MSK_IAM + "IAMOAuthBearerLoginCallbackHandler"
"""Of the same Java library, for its own logins by OAUTHBEARER."""
SIGNER = "aws_msk_iam_sasl_signer"
SIGNER_MODULE = f"{SIGNER}.MSKAuthTokenProvider"
MISSING = (
    "logins by IAM need the package aws-msk-iam-sasl-signer-python, which is not installed here: "
    "pip install mirror-bridge[msk-iam]"
)
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SESSION = "MSKSASLDefaultSession"
_OPTIONS = frozenset({"awsProfileName", "awsRoleArn", "awsRoleSessionName"})
_HARMLESS = frozenset({"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"})
_ROLE_OPTIONS = {"awsRoleExternalId", "awsStsRegion"}
_JAAS = "sasl.jaas.config"
_CALLBACKS = "sasl.login.callback.handler.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CLIENT = "sasl.oauthbearer.client.credentials.client."
_SCOPE = "sasl.oauthbearer.scope"
_FOR_FUNCTIONS = ("bootstrap.servers", "security.protocol", "sasl.")
"""What a function of the user's is given, by how its name begins."""
_CALLBACK_CLASS, _MECHANISM = "sasl.login.callback.handler.class", "sasl.mechanism"


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A Source: what the identity provider wants to see."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        asked = time.time()
        value, life = asyncio.run(fetch(self))
        return Token(value, asked + life, self.client_id, self.extensions)

    @property
    def name(self) -> str:
        return self.url

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["client", self.url, self.client_id, self.secret, self.scope, dict(self.extensions)]


@dataclass(frozen=True, slots=True)
class Unsecured:
    """A Source of tokens that nobody has signed; for tests and closed networks, as in Java."""

    subject: str
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        now = time.time()
        return Token(_unsecured(self.subject, now), now + _UNSECURED_LIFE, self.subject, self.extensions)

    @property
    def name(self) -> str:
        return f"the subject {self.subject}"

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["unsecured", self.subject, dict(self.extensions)]


def endpoint_problem(url: str) -> str | None:
    """Why no client secret is sent to a token endpoint; None when it may be."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https"):
        return "it must be https://HOST[:PORT]/PATH"
    if parts.username is not None or parts.password is not None:
        return "it must not carry credentials; they have keys of their own"
    if parts.scheme == "http" and not _may_be_http(parts):
        return (
            "over http everybody on the way can read the client secret; use https, or name the host in "
            f"{HTTP_HOSTS} of the service"
        )
    return None


def _may_be_http(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    allowed = {text.strip().lower() for text in os.environ.get(HTTP_HOSTS, "").split(",")}
    if host == "localhost" or host in allowed:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _verify_far(url: str) -> None:
    """Raises NoToken where the name of an endpoint is one of this machine, or of one that answers only those beside it,
    as a cloud's metadata service, and the service may not ask there. The policy looks at addresses and at well-known
    names, before anything is asked."""
    if not near_endpoints_refused():
        return
    host = urlsplit(url).hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return  # a proxy may know it, and nobody is asked here otherwise
    for address in {parse_address(str(sockaddr[0])) for *_, sockaddr in found}:
        if is_near(address):
            raise NoToken(
                f"{host} is {address}, an address of the service's own machine or beside it: there it asks for tokens "
                "only where MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS names the host, and that is empty now"
            )


async def fetch(login: ClientCredentials, seconds: float = SECONDS) -> tuple[str, float]:
    """A token and its life in seconds, within so many seconds. Raises NoToken."""
    import httpx  # most configurations have no token to fetch

    passing = False
    try:
        if (problem := endpoint_problem(login.url)) is not None:
            raise NoToken(problem)
        async with asyncio.timeout(seconds):
            await _verify_far(login.url)
            response = json.loads(await _ask(login, seconds))
        life = float(response.get("expires_in", _LIFE))
        if not 0 < life < _LONGEST_LIFE:
            raise NoToken(f"expires_in of the answer is {life:g}: it must be a number of seconds above 0")
        return str(response["access_token"]), life
    except TimeoutError:
        why, passing = f"no whole answer within {seconds:g} s", True
    except NoToken as problem:
        why, passing = str(problem), problem.passing
    except (httpx.HTTPError, OSError) as error:
        why, passing = f"{type(error).__name__}: {error}", True
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    # Outside of the handlers: a traceback of what happened there could show the response.
    raise NoToken(why.replace(login.secret, "[hidden]"), passing=passing)


async def _ask(login: ClientCredentials, seconds: float) -> bytes:
    """The body of the response. Raises NoToken, and what httpx raises."""
    import httpx
    from httpx import codes

    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    credentials = base64.b64encode(f"{login.client_id}:{login.secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {credentials}",
        "Accept": "application/json",
        # What is not compressed can't become larger than the limit while it is unpacked.
        "Accept-Encoding": "identity",
    }
    # The CAs of the system, which an operator may have added one to; loading them takes a moment.
    trusted = await asyncio.to_thread(ssl.create_default_context)
    # A proxy of the environment (HTTP_PROXY) would read the secret where there is no TLS through it.
    proxied = urlsplit(login.url).scheme == "https"
    async with (
        httpx.AsyncClient(
            verify=trusted, timeout=seconds, follow_redirects=False, trust_env=proxied
        ) as client,
        client.stream("POST", login.url, data=form, headers=headers) as response,
    ):
        if response.is_redirect:
            raise NoToken(_redirects(response.status_code, response.headers.get("Location", "")))
        if not response.is_success:
            status = response.status_code
            # A provider that is overloaded or broken comes back; one that refuses has to be told something else.
            passing = response.is_server_error or status == httpx.codes.TOO_MANY_REQUESTS
            # Not the answer's own words: whoever writes the configuration would read what stands at any address.
            raise NoToken(f"HTTP {status} {codes.get_reason_phrase(status)}".strip(), passing=passing)
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > _LIMIT:
                raise NoToken(f"the answer has more than {_LIMIT} bytes")
        return bytes(body)


def _redirects(status: int, location: str) -> str:
    try:
        to = urlsplit(location)
        where = f"{to.scheme}://{to.netloc.rpartition('@')[2]}" if to.netloc else "another path"
    except ValueError:
        where = "what is no address"
    return (
        f"it redirects to {where} (HTTP {status}), and the client secret is not sent on; give the address of the "
        "token endpoint itself"
    )


def _unsecured(subject: str, now: float) -> str:
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + _UNSECURED_LIFE})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join(encoded) + "."


@dataclass(frozen=True, slots=True)
class MskIam:
    """A Source. Who signs: a role, a profile, or what AWS' default chain of credentials finds, in this order, as in
    Java."""

    region: str
    profile: str = ""
    role: str = ""
    session: str = ""
    servers: tuple[str, ...] = ()
    """The bootstrap servers: a login goes to these, to brokers of MSK, and beside them."""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
        except ImportError:
            raise NoToken(MISSING) from None
        try:
            if self.role:
                made = signer.generate_auth_token_from_role_arn(
                    self.region, self.role, self.session or _SESSION
                )
            elif self.profile:
                made = signer.generate_auth_token_from_profile(self.region, self.profile)
            else:
                made = signer.generate_auth_token(self.region)
        except Exception as error:  # AWS' own have no common class
            failed = _no_token(error)
        else:
            return Token(made[0], made[1] / 1000, self.role or self.profile, self.extensions)
        raise failed

    @property
    def name(self) -> str:
        who = self.role or (f"profile {self.profile}" if self.profile else "the default credentials")
        return f"AWS IAM ({who}, region {self.region})"

    def refused(self, host: str) -> str | None:
        """Why a broker of that name gets no login; None where it gets one. Who is configured by somebody else must not
        send what is signed to whichever broker a cluster names."""
        if addresses.is_beside(host, self.servers):
            return None
        return (
            f"the cluster names {host} as a broker, which is no name of MSK and not beside {', '.join(self.servers)}: "
            "a login by IAM is not sent there; give it in bootstrap.servers if it is one"
        )

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["msk", self.region, self.profile, self.role, self.session]


def installed() -> bool:
    return find_spec(SIGNER) is not None


def region_of(servers: Sequence[str]) -> str | None:
    """The region of a cluster: as its brokers' names say it, else as AWS' own variables do."""
    named = filter(None, map(addresses.region_of, servers))
    of_variables = (os.environ[name] for name in _REGIONS if os.environ.get(name))
    return next(named, None) or next(of_variables, None)


def options_problem(options: Mapping[str, str]) -> str | None:
    """Why the options of the login module can't be carried out; None when they can. Without any value."""
    if asked := sorted(_ROLE_OPTIONS & options.keys()):
        return (
            f"the signer has nothing for {', '.join(asked)}; name a profile of the AWS config file instead "
            "(awsProfileName), with role_arn, external_id and region there"
        )
    if unknown := sorted(options.keys() - _OPTIONS - _HARMLESS):
        return f"IAMLoginModule has no options {', '.join(unknown)}; it has {', '.join(sorted(_OPTIONS))}"
    if "awsRoleSessionName" in options and "awsRoleArn" not in options:
        return "awsRoleSessionName needs awsRoleArn"
    return None


def _no_token(error: Exception) -> NoToken:
    """Describes an error by class and code alone: AWS' texts may quote what was signed."""
    name = type(error).__name__
    if name in ("AttributeError", "NoCredentialsError"):  # the signer takes no credentials for some
        where = "give them in the environment, a profile or an instance role"
        return NoToken(f"no AWS credentials were found; {where}", passing=True)
    if name == "ProfileNotFound":
        return NoToken("there is no such profile in the AWS files of this machine")
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    why = f"AWS refused to let the role be assumed ({code})" if code else f"the signer failed with {name}"
    return NoToken(why, passing=True)


Login = ClientCredentials | Unsecured | TokenFile | TokenFunction | MskIam


def is_function(handler: str) -> bool:
    """Whether a callback handler is a function of the user's."""
    return handler.startswith(PYTHON)


def needs_no_module(props: ClientProps) -> bool:
    """Whether the properties say without `sasl.jaas.config` where tokens come from."""
    handler = props.get(_CALLBACKS)
    named = is_function(handler) or handler == LOGIN_CALLBACKS or is_file_url(props.get(_URL))
    return named or props.has(f"{_CLIENT}id")


def read_oauth(props: ClientProps, module: LoginModule) -> Login | None:
    """Reads the login of OAUTHBEARER; None when something is wrong, which is then in `props.errors`."""
    handler, url = props.get(_CALLBACKS), props.get(_URL)
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in module.options.items()
        if name.startswith("extension_")
    }
    if is_function(handler):
        return _function(props, module, handler.removeprefix(PYTHON), extensions)
    if handler == LOGIN_CALLBACKS:
        options = {name: value for name, value in module.options.items() if not name.startswith("extension_")}
        return _msk_iam(props, options, extensions)
    subject = module.options.get("unsecuredLoginStringClaim_sub")
    if not url and subject is not None:
        if any(character.isspace() for character in subject):
            props.reject(_JAAS, "unsecuredLoginStringClaim_sub must not hold blanks")
            return None
        return Unsecured(subject, extensions)
    if not url:
        props.missing(
            _URL, "OAUTHBEARER needs the token endpoint of an identity provider, or the file: URL of a token"
        )
        return None
    retriever = props.get(_RETRIEVER).rpartition(".")[2]
    if retriever == "FileJwtRetriever" and not is_file_url(url):
        props.reject(_URL, f"{_RETRIEVER} reads a file: it must be file:///PATH")
        return None
    if is_file_url(url):
        return _file(props, url, retriever, extensions)
    return _client_credentials(props, module.options, url, extensions)


def read_msk_iam(props: ClientProps, module: LoginModule) -> Login | None:
    """Reads the login of Java's mechanism AWS_MSK_IAM, which is carried out as OAUTHBEARER."""
    return _msk_iam(props, module.options, {})


def _function(
    props: ClientProps, module: LoginModule, function: str, extensions: Mapping[str, str]
) -> Login | None:
    if not all(part.isidentifier() for part in function.split(".")) or "." not in function:
        props.reject(_CALLBACKS, f"not of the form {PYTHON}module.function")
        return None
    return TokenFunction(function, props.beginning(*_FOR_FUNCTIONS), module.options, extensions)


def _file(props: ClientProps, url: str, retriever: str, extensions: Mapping[str, str]) -> Login | None:
    path = path_of(url)
    if retriever == "ClientCredentialsJwtRetriever":
        props.reject(_URL, f"{_RETRIEVER} asks an identity provider: it must be https://HOST[:PORT]/PATH")
    elif path is None:
        props.reject(_URL, "a token in a file must be given as file:///PATH")
    else:
        try:
            replace(props.files, most=min(props.files.most, TOKEN_FILE_BYTES)).read(path)
        except UnreadableFile as why:
            props.reject(_URL, f"the service can't read the file: {why}")
        else:
            return TokenFile(path, extensions)
    return None


def _msk_iam(props: ClientProps, options: Mapping[str, str], extensions: Mapping[str, str]) -> Login | None:
    region = region_of(split_list(props.get("bootstrap.servers")))
    if not installed():
        props.reject("sasl.mechanism", MISSING)
    elif (props.get("security.protocol") or "").upper() != "SASL_SSL":
        props.reject("security.protocol", "MSK takes logins by IAM over SASL_SSL only")
    elif problem := options_problem(options):
        props.reject(_JAAS, problem)
    elif region is None:
        props.reject(
            "bootstrap.servers",
            "the names of the brokers don't tell the AWS region (as in *.kafka.eu-west-1.amazonaws.com:9098), so that "
            "AWS_REGION has to be set in the environment of the service",
        )
    else:
        profile, role = options.get("awsProfileName", ""), options.get("awsRoleArn", "")
        servers = tuple(split_list(props.get("bootstrap.servers")))
        return MskIam(region, profile, role, options.get("awsRoleSessionName", ""), servers, extensions)
    return None


def _client_credentials(
    props: ClientProps, options: Mapping[str, str], url: str, extensions: Mapping[str, str]
) -> Login | None:
    if (problem := endpoint_problem(url)) is not None:
        props.reject(_URL, problem)
        return None
    if ssl := sorted(name for name in options if name.startswith("ssl.")):
        why = f"the options {', '.join(ssl)} are not supported; the system's CAs are used"
        props.reject(_JAAS, why)
        return None
    client_id = props.get(f"{_CLIENT}id") or options.get("clientId", "")
    secret = props.get(f"{_CLIENT}secret") or options.get("clientSecret", "")
    if not client_id or not secret:
        props.missing(
            _CLIENT + ("secret" if client_id else "id"),
            "OAUTHBEARER needs client id and secret, here or as JAAS options clientId, clientSecret",
        )
        return None
    scope = props.get(_SCOPE) or options.get("scope", "")
    return ClientCredentials(url, client_id, secret, scope, extensions)


def login_modules(props: Mapping[str, str]) -> list[str]:
    """Modules of functions that get tokens, and the signer of AWS; each once, in the order of the keys."""
    modules = []
    for key, value in props.items():
        text = trimmed(value)
        if key.endswith(_CALLBACK_CLASS) and text.startswith(PYTHON):
            modules.append(text.removeprefix(PYTHON).rpartition(".")[0])
        signed = key.endswith(_CALLBACK_CLASS) and text == LOGIN_CALLBACKS
        if signed or (key.endswith(_MECHANISM) and text == MECHANISM):
            modules.append(SIGNER_MODULE)
    return list(dict.fromkeys(module for module in modules if module))
