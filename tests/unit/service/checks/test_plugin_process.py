"""Code of others is loaded in a process of its own, to be checked: whatever it does there, the service goes on."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.errors import Overloaded
from bridge.policy import Policy
from bridge.service.checks.plugin_process import PluginProcess, ask, conflicts, validated
from bridge.service.wiring import check_context
from connectors.base import CopiedTopics
from connectors.config.configdef import ValidatedConfig
from connectors.registry import KINDS
from tests.support.messages import message_pattern
from tests.unit.connectors.configs import SOURCE

KIND = KINDS["source"]
ANY = Policy(python_modules=("*",), import_seconds=20.0)
FILTER = """
class Filter:
    def should_replicate_topic(self, topic): return True
"""
HANGS = "import time\ntime.sleep(600)"
Check = Callable[..., ValidatedConfig]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a module that the service finds; its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str, name: str = "code_of_others") -> str:
        assert name not in sys.modules
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return make


def checked(props: dict[str, str], policy: Policy = ANY) -> ValidatedConfig:
    context = check_context(policy)
    return validated(KIND, SOURCE | props, context.clients, context.plugin_process)


def messages(config: ValidatedConfig) -> dict[str, list[str]]:
    return {entry.key.name: list(entry.errors) for entry in config.entries if entry.errors}


def test_it_is_loaded_in_a_process_of_its_own(module: Callable[..., str], tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    name = module(f"import os\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nprint('{{}}')\n" + FILTER)
    assert messages(checked({"topic.filter.class": f"python:{name}.Filter"})) == {}
    assert name not in sys.modules
    assert int(pid.read_text()) != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_answer_is_the_one_that_is_given_here(module: Callable[..., str]) -> None:
    """Errors, values, what is ignored and what is not visible."""
    name = module(FILTER)
    props = {
        "topic.filter.class": f"python:{name}.Filter",
        "replication.factor": "many",
        "tasks.max": "4",
        "nobodys.key": "x",
        "source.cluster.ssl.keystore.password": "geheim",
        "source.cluster.security.protocol": "NOTLS",
        "bridge.transforms": "a",
        "bridge.transforms.a.type": "python:bridge.transforms.mask_fields",
        "spark.plugins": "org.example.Evil",
    }
    validated = checked(props)
    here = KIND.validate(SOURCE | props, check_context(ANY).clients)
    sys.modules.pop(name)
    assert validated.response("c") == here.response("c")
    assert {"replication.factor", "bridge.transforms.a.fields", "spark.plugins"} <= set(messages(validated))
    assert validated.ignored


def test_code_that_is_not_allowed_starts_no_process(module: Callable[..., str]) -> None:
    name = module(FILTER)
    context = check_context(Policy())
    nowhere = PluginProcess(Policy(), "no.such.module")
    checked_ = validated(
        KIND, SOURCE | {"topic.filter.class": f"python:{name}.Filter"}, context.clients, nowhere
    )
    assert list(messages(checked_)) == ["topic.filter.class"]
    ours = {"topic.filter.class": "python:bridge.mm2.filters.DefaultTopicFilter"}
    assert messages(validated(KIND, SOURCE | ours, context.clients, nowhere)) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HANGS, "it was not loaded within 0.5 s (MIRROR_BRIDGE_IMPORT_SECONDS)"),
        pytest.param("while True: pass", "it was not loaded within 0.5 s", marks=pytest.mark.long),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "that loads it ended (signal SIGSEGV)"),
        ("import sys\nsys.exit(3)", "the process that loads it ended (exit status 3)"),
        pytest.param(
            "import os\nos._exit(0)",
            "the process that loads it ended (exit status 0)",
            marks=pytest.mark.long,
        ),
        ("x = bytearray(64 << 30)", "the module code_of_others failed with MemoryError"),
        ("raise RuntimeError('broken')", "the module code_of_others failed with RuntimeError: broken"),
        (
            FILTER + "    def configure(self, props):\n        import time\n        time.sleep(600)",
            "it was not loaded within 0.5 s",
        ),
    ],
    ids=["sleeps", "loops", "crashes", "exits", "ends", "is large", "raises", "configure"],
)
def test_what_it_does_is_an_error_of_its_key(module: Callable[..., str], text: str, why: str) -> None:
    name = module(text)
    props = {"topic.filter.class": f"python:{name}.Filter", "replication.factor": "many"}
    policy = replace(ANY, import_seconds=0.5) if "not loaded within" in why else ANY
    result = messages(checked(props, policy))
    assert set(result) == set(props)
    (text,) = result["topic.filter.class"]
    invalid = message_pattern("config.invalid", value=f"python:{name}.Filter", key="topic.filter.class")
    assert re.fullmatch(invalid, text)
    assert why in text


def test_processes_that_it_starts_end_with_it(module: Callable[..., str], tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    name = module(
        "import subprocess\n"
        f"open({str(pid)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n" + FILTER
    )
    assert messages(checked({"topic.filter.class": f"python:{name}.Filter"})) == {}
    deadline = time.monotonic() + 60
    while _lives(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_an_answer_that_comes_at_once_is_read(module: Callable[..., str]) -> None:
    """On a busy machine the process has answered before anybody has read that it runs."""
    child = module(
        "import socket, sys\n"
        "channel = socket.socket(fileno=int(sys.argv[1]))\n"
        "channel.makefile('rb').readline()\n"
        """channel.sendall(b'{}\\n{"answer":7}\\n')\n""",
        "quick_process",
    )
    assert ask({"question": "any"}, 20.0, child) == {"answer": 7}


def test_all_that_was_loaded_together_is_named(module: Callable[..., str]) -> None:
    hangs, fine = module(HANGS), module("def f(batch): return batch", "fine_code")
    props = {"topic.filter.class": f"python:{hangs}.Filter", "bridge.transforms": f"python:{fine}.f"}
    result = messages(checked(props, replace(ANY, import_seconds=0.5)))
    assert list(result) == ["topic.filter.class", "bridge.transforms"]
    assert f"; it, or {fine}.f, which is loaded with it" in result["topic.filter.class"][0]
    assert f"; it, or {hangs}.Filter, which is loaded with it" in result["bridge.transforms"][0]


def test_a_process_that_does_not_start_is_asked_again_later(module: Callable[..., str]) -> None:
    name = module(FILTER)
    context = check_context(ANY)
    props = SOURCE | {"topic.filter.class": f"python:{name}.Filter"}
    with pytest.raises(Overloaded, match="did not start"):
        validated(KIND, props, context.clients, PluginProcess(ANY, "no.such.module"))


def test_conflicts_are_worked_out_there_too(module: Callable[..., str]) -> None:
    name = module(FILTER)
    props = SOURCE | {"topics": "orders", "replication.policy.class": "IdentityReplicationPolicy"}
    ours = props | {"topic.filter.class": f"python:{name}.Filter"}
    others = [CopiedTopics("other", props, [("orders", "orders")])]
    context = check_context(ANY)
    result = conflicts(KIND, ours, others, context.plugin_process)
    assert name not in sys.modules
    assert result == KIND.conflicts(ours, others) != []
    sys.modules.pop(name)
    hangs = props | {"topic.filter.class": f"python:{module(HANGS, 'hanging_code')}.Filter"}
    (error,) = conflicts(KIND, hangs, others, PluginProcess(replace(ANY, import_seconds=0.5)))
    assert (error.key, "MIRROR_BRIDGE_IMPORT_SECONDS" in error.message) == ("topic.filter.class", True)
