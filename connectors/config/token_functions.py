"""Checks functions that get tokens, `sasl.login.callback.handler.class=python:module.function`, by loading them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from bridge.errors import ConfigError
from connectors.config.configdef import ValidatedConfig
from connectors.config.plugins import load_function

LOGIN_CALLBACKS: Final = "sasl.login.callback.handler.class"
_PYTHON = "python:"


def token_functions(props: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the functions, with `python:`, by the keys of clients that name them."""
    return {
        key: value
        for key, value in props.items()
        if key.endswith(f".{LOGIN_CALLBACKS}") and value.startswith(_PYTHON)
    }


def token_function_errors(there: Mapping[str, str], config: ValidatedConfig) -> list[ConfigError]:
    """Returns the errors of functions that can't be loaded or called. None is called: it may log in somewhere. What has
    an error already is not loaded."""
    wrong = {error.key for error in config.errors}
    results = [
        load_function(key, name, there, _takes_two, "looked at, it")
        for key, name in token_functions(there).items()
        if key not in wrong
    ]
    return [each for each in results if isinstance(each, ConfigError)]


def _takes_two(function: Callable[..., object]) -> str | None:
    if inspect.iscoroutinefunction(function):
        return "it must be a plain function: what it returns is not awaited"
    try:
        inspect.signature(function).bind({}, {})
    except TypeError:
        return "it must take two arguments: the client's properties, and the options of its login module"
    except ValueError:
        return None  # it tells nothing of its arguments
    return None
