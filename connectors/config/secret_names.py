"""Which configuration keys are named like secrets: their values stay out of error texts and log lines.

Judged by the name alone, because client properties, Spark's keys and the parameters of users' own code have no
definition that would give them the type PASSWORD. The shim has the list from its definitions (connectors.export), and
sends no configuration with such a key by plain HTTP to another machine.
"""

from __future__ import annotations

import re

from connectors.config.validators import Json

_ANYWHERE = (
    *("password", "passphrase", "secret", "token", "credential", "jaas", "keystore", "certificate"),
    *(r"user\.info", r"(?:account|access|api)[._-]?key"),
)
_SPARK = (r"Options$", r"Env\.")
"""`spark.driver.extraJavaOptions`, `spark.executorEnv.NAME`: texts that may hold secrets among other things."""
_SECRET = re.compile("|".join((*_ANYWHERE, r"\.key$", *_SPARK)), re.IGNORECASE | re.ASCII)
"""Means the same in Java."""
_PLAIN = ("keystore.location", "keystore.type", "token.endpoint.url")
"""Client properties that say where a secret is, not what it is: errors about them have to show their values."""


def looks_secret(key: str) -> bool:
    """Tells whether a key is named like one whose value is, or may hold, a secret."""
    return _SECRET.search(key) is not None and not key.endswith(_PLAIN)


def exported() -> Json:
    """The list as the shim reads it: a pattern to be found in a key in any case, and ends of keys that are none."""
    return {"pattern": _SECRET.pattern, "but_not": list(_PLAIN)}
