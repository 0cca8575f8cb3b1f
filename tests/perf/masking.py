"""What has stock mask a field of JSON values: a transform that parses them, made a plugin of a worker."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from bridge.local.jars import kafka_jars
from bridge.model.copying import Transform
from tests.support import bounds, read

_CLASS = "dev.mirrorbridge.perf.ParseJson"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
FIELD = "email"
STOCKS = {
    "transforms": "parse,mask",
    "transforms.parse.type": _CLASS,
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": FIELD,
    "value.converter": _CONVERTER,
    "value.converter.schemas.enable": "false",
}
"""In stock's connector. Its values are bytes: none of stock's own transforms and converters makes fields of them."""
NEAREST = {
    "transforms": "insert",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.insert.header": "h",
    "transforms.insert.value.literal": "1",
}
"""The least that a transform of stock's own does to each record: what masks can't be faster."""
OURS = (Transform("mask", "bridge.transforms.mask_fields", {"fields": FIELD}),)


def plugin(directory: Path) -> Path:
    """A directory for plugin.path, made there, with the transform that parses."""
    classes, jar = directory / "classes", directory / "plugins" / "parse-json" / "parse-json.jar"
    source = Path(__file__).with_name("ParseJson.java")
    jars = f"{kafka_jars('4.3.1').directory}/*"
    subprocess.run(["javac", "-Xlint:all", "-cp", jars, "-d", str(classes), str(source)], check=True)
    jar.parent.mkdir(parents=True)
    with zipfile.ZipFile(jar, "w") as packed:
        for each in classes.rglob("*.class"):
            packed.write(each, str(each.relative_to(classes)))
        packed.writestr("META-INF/services/org.apache.kafka.connect.transforms.Transformation", _CLASS)
    return jar.parents[1]


def assert_masked(bootstrap: str, topic: str) -> None:
    """That copies hold all fields, and the one is empty."""
    _, end = bounds(bootstrap, topic)[0]
    for each in read(bootstrap, topic, 0, start=max(0, end - 3)):
        value = json.loads(each.value or b"")
        assert value[FIELD] == "", value
        assert value["text"], value
