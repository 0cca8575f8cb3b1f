"""Which keys are named like secrets: one answer for validation, plugins and the service's policy."""

from __future__ import annotations

import pytest

from connectors.config.secret_names import looks_secret


@pytest.mark.parametrize(
    "key",
    [
        # validation's own list
        "source.cluster.ssl.keystore.password",
        "target.cluster.sasl.jaas.config",
        "client.credentials.client.secret",
        "bridge.auth.token",
        "source.cluster.ssl.keystore.key",
        # that of plugins
        "assertion.private.key.passphrase",
        "producer.override.ssl.keystore.certificate.chain",
        "my.filter.keystore",
        "my.jaas.text",
        "my.secrets.file",
        # that of the policy
        "spark.hadoop.fs.s3a.access.key",
        "spark.driver.extraJavaOptions",
        "spark.executorEnv.AWS_ID",
        "spark.MY_PASSWORD",
        "spark.hadoop.credential.provider",
    ],
)
def test_keys_that_are_named_like_secrets(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "name",
        "topics",
        "groups.exclude",
        "key.converter",
        "bridge.url",
        "source.cluster.bootstrap.servers",
        "source.cluster.security.protocol",
        "source.cluster.sasl.mechanism",
        "source.cluster.ssl.truststore.location",
        "source.cluster.ssl.keystore.location",
        "source.cluster.ssl.keystore.type",
        "sasl.oauthbearer.token.endpoint.url",
        "source.cluster.ssl.endpoint.identification.algorithm",
        "spark.master",
        "spark.executor.memory",
    ],
)
def test_keys_that_are_not(key: str) -> None:
    assert not looks_secret(key)
