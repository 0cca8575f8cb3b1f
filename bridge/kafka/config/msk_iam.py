"""Logins of AWS MSK by IAM: tokens that the package aws-msk-iam-sasl-signer-python signs, for OAUTHBEARER.

Java's clients log in with a mechanism of their own, AWS_MSK_IAM; MSK takes OAUTHBEARER on the same port, with the same
rights. The signer is imported late: few configurations need it, and it is installed by an extra.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from bridge.kafka.config.property_names import MSK_IAM
from bridge.kafka.config.tokens import NoToken, Token
from bridge.model import aws

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
        if aws.is_beside(host, self.servers):
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
    named = filter(None, map(aws.region_of, servers))
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
