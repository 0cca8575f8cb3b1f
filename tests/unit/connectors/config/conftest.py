"""What tests of keys ask librdkafka itself."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import confluent_kafka
import pytest


@pytest.fixture(scope="module")
def librdkafka(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of all its properties, told by itself; without topic.blacklist, which mirrors mean otherwise."""
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    (path,) = libraries.glob("librdkafka*")
    library, c = ctypes.CDLL(str(path)), ctypes.CDLL(None)
    c.fopen.restype = ctypes.c_void_p
    listed = tmp_path_factory.mktemp("librdkafka") / "properties"
    file = ctypes.c_void_p(c.fopen(str(listed).encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    names = set(re.findall(r"^([a-z][a-z0-9._]+) +\|", listed.read_text(), re.MULTILINE))
    return names - {"topic.blacklist"}
