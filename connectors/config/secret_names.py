"""Which configuration keys are named like secrets: their values stay out of error texts and log lines.

Judged by the name alone, because client properties, Spark's keys and the parameters of users' own code have no
definition that would give them the type PASSWORD.
"""

from __future__ import annotations

import re

_ANYWHERE = ("password", "passphrase", "secret", "token", "credential", "jaas", "keystore", "certificate")
_SPARK = (r"Options$", r"Env\.")
"""`spark.driver.extraJavaOptions`, `spark.executorEnv.NAME`: texts that may hold secrets among other things."""
_SECRET = re.compile("|".join((*_ANYWHERE, r"\.key$", *_SPARK)), re.IGNORECASE)
_PLAIN = ("keystore.location", "keystore.type", "token.endpoint.url")
"""Client properties that say where a secret is, not what it is: errors about them have to show their values."""


def looks_secret(key: str) -> bool:
    """Tells whether a key is named like one whose value is, or may hold, a secret."""
    return _SECRET.search(key) is not None and not key.endswith(_PLAIN)
