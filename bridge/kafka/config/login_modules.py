"""Python modules that logins of a configuration need, wherever its clients run."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.kafka.config import msk_iam
from bridge.kafka.config.token_function import PYTHON
from bridge.model.java_values import trimmed

_CALLBACKS, _MECHANISM = "sasl.login.callback.handler.class", "sasl.mechanism"


def login_modules(props: Mapping[str, str]) -> list[str]:
    """Modules of functions that get tokens, and the signer of AWS; each once, in the order of the keys."""
    modules = []
    for key, value in props.items():
        text = trimmed(value)
        if key.endswith(_CALLBACKS) and text.startswith(PYTHON):
            modules.append(text.removeprefix(PYTHON).rpartition(".")[0])
        signed = key.endswith(_CALLBACKS) and text == msk_iam.LOGIN_CALLBACKS
        if signed or (key.endswith(_MECHANISM) and text == msk_iam.MECHANISM):
            modules.append(msk_iam.SIGNER_MODULE)
    return list(dict.fromkeys(each for each in modules if each))
