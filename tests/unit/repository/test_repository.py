"""What holds for the repository as a whole: module sizes, pinned requirements, no addresses of registries."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.messages import message
from tests.unit.repository.parsing import nodes, parsed

ROOT = Path(__file__).parents[3]
REGISTRIES = re.compile(
    r"pypi\.(?:org|io)|pythonhosted\.org|repo\d?\.maven|maven\.org/|maven2/|registry\.npmjs|registry-1\.docker|"
    r"(?:extra-)?index-url\s*[=h]|find-links\s*[=/h]",
    re.IGNORECASE,
)
"""Where packages come from is the business of whoever installs them (pip.conf, settings.xml, a mirror)."""


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_tests_reach_no_private_name() -> None:
    """What a test replaces or reads is a seam of its module, and public: whoever renames it has to see that."""
    reached = {
        (path, name)
        for path, tree in parsed("tests", REACHES).items()
        for name in _reached(tree)
        if _private(name) and (path.rpartition("/")[2], name) not in OF_LIBRARIES
    }
    made = re.compile("|".join({rf"\b{name}\b" for _, name in reached}))
    private = {name for package in ("bridge", "connectors") for name in _names(package, made)}
    assert {f"{path}: {name}" for path, name in reached if name in private} == set()


REACHES = re.compile(
    r"(?<!\bself)(?<!\bcls)(?<!super\(\))\._[a-z]|[\"']_[a-z]\w*[\"']|\bimport\b.*\b_[a-z]|^\s+_[a-z]\w*,?$",
    re.IGNORECASE | re.MULTILINE,
)
"""Seven files of eight hold nothing that looks so, and are not parsed."""


OF_LIBRARIES = {
    ("service_main.py", "_run"),  # asyncio.Handle's
    ("spark.py", "_gateway"),  # SparkContext's
    ("test_session.py", "_brokers"),  # aiokafka's, as all that follow
    ("test_session.py", "_metadata_update"),
    ("test_wrong_credentials.py", "_client"),
}


OF_TUPLES = {"_", "_asdict", "_fields", "_make", "_replace"}
"""The public methods of NamedTuple; and the name of what is not used."""


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_TUPLES


def _names(folder: str, made: re.Pattern[str]) -> set[str]:
    """Names that the modules of a folder define, where `made` finds something."""
    names = set[str]()
    for tree in parsed(folder, made).values():
        for node in nodes(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
    return names


def _reached(module: ast.Module) -> Iterator[str]:
    """Attributes of others than self, cls and super(), names that are imported, and strings: setattr takes those."""
    for node in nodes(module):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Call(args=[_, ast.Constant(value=str(name)), *_]):
                yield name


def test_no_file_names_a_registry() -> None:
    collected = []
    for path in committed():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        collected += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in REGISTRIES.finditer(text)]
    assert collected == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "--find-links /opt/wheels",
        "url = https://files.pythonhosted.org/packages/x.whl",
        "<url>https://repo1.maven.org/maven2/</url>",
    ],
)
def test_a_registry_would_be_seen(line: str) -> None:
    assert REGISTRIES.search(line)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("no make")
    # Run by make itself, the tests must not pass for a part of that make.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
    }
    return subprocess.run(
        ["make", "-s", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )


def test_make_lists_its_targets() -> None:
    listed = {line.split()[0] for line in make().stdout.splitlines()}
    expected = {
        "setup",
        "test",
        "test-unit",
        "lint",
        "demo",
        "bench",
        "shim",
        "definitions",
        "openapi",
        "clean",
    }
    assert expected <= listed


def test_setup_says_in_one_line_that_python_is_missing_or_old(tmp_path: Path) -> None:
    done = make("setup", f"VENV={tmp_path / 'venv'}", "PYTHON=false")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert lines == [message("make.old_python")]
    assert done.returncode != 0


def test_the_build_server_runs_what_developers_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert commands == ['cd "$(dirname "$0")/.." && exec make test']


def test_hooks_download_nothing() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}
    assert {hook["language"] for repo in repos for hook in repo["hooks"]} == {"system"}


def pinned() -> dict[str, str]:
    """Name to version, of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text("utf-8")
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", text, re.MULTILINE))


def test_requirements_are_pinned_by_hash_and_nothing_else() -> None:
    entries = (ROOT / "requirements.txt").read_text("utf-8").replace("\\\n", " ").splitlines()
    entry = re.compile(r"[A-Za-z0-9._-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")
    assert entries
    assert [line for line in entries if not entry.fullmatch(line)] == []


def test_requirements_satisfy_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    build = project["build-system"]["requires"]
    expected = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
        *build,
    ]
    versions = pinned()
    for requirement in map(Requirement, expected):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not pinned"
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


@pytest.mark.parametrize("pom", ["java-shim/pom.xml", "bridge/local/jars.pom.xml"])
def test_maven_takes_the_versions_that_are_named(pom: str) -> None:
    """Each dependency and plugin has one, and none is a range, the latest or a snapshot, which change by themselves."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    root = ElementTree.parse(ROOT / pom).getroot()
    taken = [
        (each.findtext(f"{space}artifactId"), each.findtext(f"{space}version", ""))
        for kind in ("dependency", "plugin", "extension", "parent")
        for each in root.iter(space + kind)
    ]
    assert len(taken) > 3
    version = re.compile(r"\$\{\w+\.version}|[0-9]+(\.[0-9]+)*")
    assert [each for each in taken if version.fullmatch(each[1]) is None] == []
    named = [each.text or "" for each in root.iter() if each.tag.endswith(".version")]
    assert [each for each in named if version.fullmatch(each) is None] == []
