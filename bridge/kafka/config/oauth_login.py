"""Which token a client logs in with: from its properties to one of the ways that there are."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.kafka.config import msk_iam
from bridge.kafka.config.files import UnreadableFile
from bridge.kafka.config.msk_iam import MskIam
from bridge.kafka.config.oauth import ClientCredentials, Unsecured, endpoint_problem
from bridge.kafka.config.properties import ClientProps
from bridge.kafka.config.token_file import TokenFile, is_file_url, path_of
from bridge.kafka.config.token_function import PYTHON, TokenFunction
from bridge.model.jaas import LoginModule
from bridge.model.java_values import split_list

Login = ClientCredentials | Unsecured | TokenFile | TokenFunction | MskIam

_JAAS = "sasl.jaas.config"
_CALLBACKS = "sasl.login.callback.handler.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CLIENT = "sasl.oauthbearer.client.credentials.client."
_SCOPE = "sasl.oauthbearer.scope"
_FOR_FUNCTIONS = ("bootstrap.servers", "security.protocol", "sasl.")
"""What a function of the user's is given, by how its name begins."""


def is_function(handler: str) -> bool:
    """Whether a callback handler is a function of the user's."""
    return handler.startswith(PYTHON)


def needs_no_module(props: ClientProps) -> bool:
    """Whether the properties say without `sasl.jaas.config` where tokens come from."""
    handler = props.get(_CALLBACKS)
    named = is_function(handler) or handler == msk_iam.LOGIN_CALLBACKS or is_file_url(props.get(_URL))
    return named or props.given(f"{_CLIENT}id")


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
    if handler == msk_iam.LOGIN_CALLBACKS:
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
            props.files.read(path)
        except UnreadableFile as why:
            props.reject(_URL, f"the service can't read the file: {why}")
        else:
            return TokenFile(path, extensions)
    return None


def _msk_iam(props: ClientProps, options: Mapping[str, str], extensions: Mapping[str, str]) -> Login | None:
    region = msk_iam.region_of(split_list(props.get("bootstrap.servers")))
    if not msk_iam.installed():
        props.reject("sasl.mechanism", msk_iam.MISSING)
    elif (props.get("security.protocol") or "").upper() != "SASL_SSL":
        props.reject("security.protocol", "MSK takes logins by IAM over SASL_SSL only")
    elif problem := msk_iam.options_problem(options):
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
