"""What Spark is told."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.kafka.config import tls
from bridge.kafka.config.oauth import HTTP_HOSTS
from bridge.pipeline.driver.spark_settings import for_sharing, own_slots, spark_settings
from bridge.pipeline.driver.submitting import java_arguments, properties


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (None, "local[*,4]"),
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,7]", "local[2,7]"),
        ("spark://master:7077", "spark://master:7077"),
        ("k8s://https://api:6443", "k8s://https://api:6443"),
    ],
)
def test_one_lost_worker_does_not_end_a_local_job(given: str | None, master: str) -> None:
    props = {} if given is None else {"spark.master": given}
    assert spark_settings("mirror", props)["spark.master"] == master


def test_connectors_that_are_alike_share_a_spark_and_each_has_its_own_slices() -> None:
    one = {"spark.shared": "true", "spark.master": "local[3]", "spark.log.level": "INFO", "topics": "a"}
    other = {"spark.shared": "true", "spark.default.parallelism": "7", "spark.log.level": "INFO"}
    third = {"spark.shared": "true", "spark.driver.memory": "2g"}
    assert for_sharing(one) == for_sharing(other) != for_sharing(third)
    started = spark_settings("shared", for_sharing(one))
    assert started["spark.master"] == "local[1000,4]"
    assert not {"spark.shared", "spark.default.parallelism"} & set(started)
    assert [own_slots(each) for each in (one, other, {"spark.master": "local"})] == [3, 7, 1]
    assert own_slots({"spark.master": "local[2,4]"}) == 2
    assert own_slots(third) == os.cpu_count()


def test_spark_keys_go_through_and_no_others() -> None:
    props = {"spark.executor.memory": "2g", "spark.ui.enabled": "true", "topics": "a", "sparkle": "no"}
    settings = spark_settings("mirror", props)
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.ui.enabled"] == "true"
    assert not {"topics", "sparkle"} & set(settings)


def test_spark_logs_no_event_with_all_settings() -> None:
    assert spark_settings("mirror", {})["spark.scheduler.listenerbus.logSlowEvent"] == "false"


def test_speculation_is_off_whatever_is_given() -> None:
    assert spark_settings("mirror", {"spark.speculation": "true"})["spark.speculation"] == "false"


@pytest.mark.parametrize(
    ("master", "given", "settings"),
    [
        ("local[2]", {}, ("true", "true")),
        ("local", {"spark.network.crypto.enabled": "false"}, ("true", "false")),
        ("local[*]", {"spark.authenticate": "false"}, ("false", None)),
        ("local-cluster[1,1,512]", {}, (None, None)),
        ("spark://master:7077", {}, (None, None)),
        ("spark://master:7077", {"spark.authenticate": "true"}, ("true", "true")),
        ("yarn", {"spark.authenticate": "false"}, ("false", None)),
    ],
)
def test_spark_authenticates_on_this_machine_and_encrypts_where_it_does(
    master: str, given: dict[str, str], settings: tuple[str | None, ...]
) -> None:
    parsed = spark_settings("mirror", {"spark.master": master, **given})
    assert (parsed.get("spark.authenticate"), parsed.get("spark.network.crypto.enabled")) == settings
    assert parsed["spark.io.encryption.enabled"] == "true"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "sasl.jaas.config",
            "ssl.key.password",
            "passphrase",
            "clientSecret",
            "fs.s3a.access.key",
            "api_key",
        ),
        *("fs.azure.account.key.store", "auth.token", "Credentials", "private-key", "PASSWD"),
    ],
)
def test_spark_hides_what_is_named_like_a_secret(name: str) -> None:
    assert re.search(spark_settings("mirror", {})["spark.redaction.regex"], f"spark.hadoop.{name}")


def test_executors_elsewhere_know_the_hosts_that_may_be_asked_over_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HTTP_HOSTS, "idp")
    key = f"spark.executorEnv.{HTTP_HOSTS}"
    assert spark_settings("mirror", {"spark.master": "yarn"})[key] == "idp"
    assert key not in spark_settings("mirror", {})


def test_properties_hold_every_character() -> None:
    settings = {"spark.a b": " =:#!\\\n\t\u00e9\U0001d11e'\"", "spark.plain": "10.0-x_Y/z:1"}
    first, second = properties(settings).splitlines()
    assert second == "spark.plain=10.0-x_Y/z:1"
    assert first.isascii()
    result = re.sub(r"\\u([0-9a-f]{4})", lambda unit: chr(int(unit[1], 16)), first)
    key, value = result[:9], result[10:].encode("utf-16", "surrogatepass").decode("utf-16")
    assert {key: value} == {"spark.a b": settings["spark.a b"]}


def test_java_options_are_split_as_by_a_shell() -> None:
    options = """-Xss1m -Da='b c' -Dd="e\\"f" -Dg=h\\\\i"""
    assert java_arguments(options) == '"-Xss1m"\n"-Da=b c"\n"-Dd=e\\"f"\n"-Dg=h\\\\i"\n'


def test_a_file_in_memory_is_empty_when_it_was_read() -> None:
    with ExitStack() as child:  # one that keeps it open
        with tls.memory_file(b"secret") as descriptor:
            assert descriptor is not None
            other = child.enter_context(Path(tls.path_of(descriptor)).open("rb"))
            assert other.read() == b"secret"
        other.seek(0)
        assert other.read() == b""
