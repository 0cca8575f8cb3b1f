"""What can be said of the compose file and the images without a container engine."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.local import DEFAULT_KAFKA

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = sorted(DEPLOY.glob("*.Dockerfile"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))


def test_two_clusters_a_service_and_a_worker(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"cluster-a", "cluster-b", "service", "worker"}


def test_nothing_is_published_beyond_loopback(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service["ports"]]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in published}) == len(published)


def test_brokers_and_worker_are_of_the_version_that_is_tested(compose: dict[str, Any]) -> None:
    image = f"apache/kafka:{DEFAULT_KAFKA}"
    assert {compose["services"][name]["image"] for name in ("cluster-a", "cluster-b")} == {image}
    assert f"\nFROM {image}\n" in (DEPLOY / "worker.Dockerfile").read_text("utf-8")


def test_brokers_advertise_what_others_are_told(compose: dict[str, Any]) -> None:
    connector = json.loads((DEPLOY / "compose-connector.json").read_text("utf-8"))
    worker = compose["services"]["worker"]["environment"]
    for name, told in (
        ("cluster-a", [connector["source.cluster.bootstrap.servers"]]),
        ("cluster-b", [connector["target.cluster.bootstrap.servers"], worker["CONNECT_BOOTSTRAP_SERVERS"]]),
    ):
        environment = compose["services"][name]["environment"]
        advertised = dict(
            entry.split("://") for entry in environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
        )
        assert set(told) == {advertised["INSIDE"]}
        host, _, port = advertised["OUTSIDE"].partition(":")
        assert host == "localhost"
        assert f"127.0.0.1:{port}:9092" in compose["services"][name]["ports"]


def test_builds_name_files_that_exist(compose: dict[str, Any]) -> None:
    built = {
        ROOT / service["build"]["context"] / service["build"]["dockerfile"]
        for service in compose["services"].values()
        if "build" in service
    }
    assert built == set(DOCKERFILES)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_images_copy_what_exists(dockerfile: Path) -> None:
    copies = re.findall(r"^COPY (?!--from)(.+)$", dockerfile.read_text("utf-8"), re.MULTILINE)
    assert copies
    sources = [source for copy in copies for source in copy.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_service_image_has_the_tested_versions() -> None:
    def pins(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", path.read_text("utf-8"), re.MULTILINE))

    service, tested = pins(DEPLOY / "service.requirements.txt"), pins(ROOT / "requirements.txt")
    assert service
    assert service.items() <= tested.items()
    assert "pytest" not in service


def test_worker_variables_are_all_given(compose: dict[str, Any]) -> None:
    wanted = re.findall(r"\$\{env:(\w+)}", (DEPLOY / "worker.properties").read_text("utf-8"))
    given = compose["services"]["worker"]["environment"]
    assert set(wanted) == {name for name in given if name.startswith("CONNECT_")}


def test_docker_accepts_the_compose_file() -> None:
    try:
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no docker client")
    if found.returncode != 0:
        pytest.skip("the docker client has no compose")
    command = ["docker", "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
