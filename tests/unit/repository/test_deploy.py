"""What can be said of the compose file and the images without a container engine: all that they name is there, and they
agree with each other. tests/e2e/test_compose.py runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge.local import DEFAULT_KAFKA
from bridge.policy import Policy
from bridge.service.wiring import check_context
from bridge.settings import ENV_PREFIX, Settings, SettingsRejected, load_settings
from connectors.base import Kind
from connectors.config.allowed_names import refused
from tests import ROOT
from tests.unit.repository.deployed import (
    DEPLOY,
    KAFKA_BIN,
    SCRIPTS,
    commands,
    compose,
    dockerfile,
    environment,
    health_check,
    properties,
)

COMPOSE = compose()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
IMAGES = sorted(path.name.removesuffix(".Dockerfile") for path in DEPLOY.glob("*.Dockerfile"))
CONNECTORS = sorted((DEPLOY / "compose").glob("*.json"))
INIT = DEPLOY / "compose" / "init.sh"
KEYS = DEPLOY / "compose" / "keys.sh"
BROKERS = ("cluster-a", "cluster-b")
README = commands(DEPLOY / "README.md", "Trying it out")
OF_COMMANDS = {"MIRROR_BRIDGE_URL", "MIRROR_BRIDGE_CA"}
OF_CONNECT = {"connector.class", "tasks.max"}
SHIM = ROOT / "java-shim" / "src" / "main"


def _config(path: Path) -> dict[str, str]:
    read: dict[str, str] = json.loads(path.read_text("utf-8"))
    return read


def _published(service: str) -> dict[str, str]:
    """Ports inside of the container by the port on the host's loopback."""
    return {each.split(":")[1]: each.split(":")[2] for each in SERVICES[service].get("ports", [])}


def _listeners(broker: str, key: str = "KAFKA_ADVERTISED_LISTENERS") -> dict[str, str]:
    """Host and port by the name of the listener."""
    return dict(entry.split("://") for entry in SERVICES[broker]["environment"][key].split(","))


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert len({port.split(":")[1] for port in published}) == len(published)


def test_brokers_and_worker_are_of_the_version_that_is_tested() -> None:
    image = f"apache/kafka:{DEFAULT_KAFKA}"
    assert {SERVICES[name]["image"] for name in BROKERS} == {image}
    assert [rest for word, rest in dockerfile("worker") if word == "FROM"][-1] == image


@pytest.mark.parametrize("image", IMAGES)
def test_an_operator_can_pin_each_base_image_by_its_digest(image: str) -> None:
    text = (DEPLOY / f"{image}.Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 2
    assert [base for base in bases if re.fullmatch(r"\$\{\w+_IMAGE\}", base) is None] == []


def _images(services: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Service and image: of each that is pulled, or built upon."""
    for name, service in services.items():
        if "image" in service:
            yield name, service["image"]
        yield from ((name, image) for image in service.get("build", {}).get("args", {}).values())


def test_compose_takes_the_images_of_its_environment() -> None:
    """By variables, so that each can be given with its digest; without them, those that the images are built upon."""
    kafka = f"apache/kafka:{DEFAULT_KAFKA}"
    bases = {rest.split()[0] for image in IMAGES for word, rest in dockerfile(image) if word == "FROM"}
    assert {image for _, image in _images(SERVICES)} == bases | {kafka}
    variables = ("KAFKA_IMAGE", "SERVICE_BUILD_IMAGE", "SERVICE_RUN_IMAGE", "WORKER_BUILD_IMAGE")
    chosen = list(_images(compose({name: f"x@sha256:{name}" for name in variables})["services"]))
    assert {image for _, image in chosen} == {f"x@sha256:{name}" for name in variables}
    of_kafka = {name for name, image in chosen if image.endswith(":KAFKA_IMAGE")}
    assert of_kafka == {name for name, image in _images(SERVICES) if image == kafka}


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_listens_where_it_says(name: str) -> None:
    advertised, listening = _listeners(name), _listeners(name, "KAFKA_LISTENERS")
    host, _, port = advertised["INSIDE"].rpartition(":")
    assert (host, f":{port}") == (name, listening["INSIDE"])
    host, _, port = advertised["OUTSIDE"].rpartition(":")
    assert (host, f":{_published(name)[port]}") == ("localhost", listening["OUTSIDE"])
    check = SERVICES[name]["healthcheck"]["test"]
    assert check[check.index("--bootstrap-server") + 1] == f"localhost{listening['INSIDE']}"


def test_the_clusters_have_ids_of_their_own() -> None:
    """The image gives every cluster the same one."""
    assert len({SERVICES[name]["environment"]["CLUSTER_ID"] for name in BROKERS}) == len(BROKERS)


def test_every_address_is_one_where_a_service_listens() -> None:
    ports = {
        "service": environment("service")["MIRROR_BRIDGE_PORT"],
        "worker": str(urlsplit(properties(DEPLOY / "worker.properties")["listeners"]).port),
    }
    listening = {f"{name}:{port}" for name, port in ports.items()} | {
        _listeners(name)["INSIDE"] for name in BROKERS
    }
    texts = [json.dumps(COMPOSE), *(path.read_text("utf-8") for path in CONNECTORS)]
    pattern = rf"\b(?:{'|'.join(SERVICES)}):\d+\b"
    assert {named for text in texts for named in re.findall(pattern, text)} == listening
    for name, port in ports.items():
        assert _published(name) == {port: port}
        assert [rest for word, rest in dockerfile(name) if word == "EXPOSE"] == [port]
    allowed = SERVICES["worker"]["environment"]["MIRROR_BRIDGE_ALLOWED_URLS"]
    assert {_config(path)["bridge.url"] for path in CONNECTORS} == {allowed}


def test_builds_name_files_that_exist() -> None:
    built = {
        (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
        for service in SERVICES.values()
        if "build" in service
    }
    assert built == {DEPLOY / f"{name}.Dockerfile" for name in IMAGES}
    assert all("build" in service or "image" in service for service in SERVICES.values())


@pytest.mark.parametrize("image", IMAGES)
def test_images_copy_what_exists(image: str) -> None:
    copies = [rest for word, rest in dockerfile(image) if word == "COPY" and not rest.startswith("--from")]
    assert copies
    sources = [source for copy in copies for source in copy.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("image", IMAGES)
def test_images_copy_from_stages_that_exist_what_was_put_there(image: str) -> None:
    made = dockerfile(image)
    stages = [rest.partition(" AS ")[2] for word, rest in made if word == "FROM"]
    text = " ".join(rest for word, rest in made if word in ("RUN", "WORKDIR"))
    copies = [rest.split() for word, rest in made if word == "COPY" and rest.startswith("--from=")]
    for stage, source, _ in copies:
        assert stage.removeprefix("--from=") in stages
        assert source in text


def _mounts(service: str) -> dict[str, str]:
    """What is mounted, with `:ro` where it can't be written, by the path inside."""
    parts = [volume.split(":") for volume in SERVICES[service].get("volumes", [])]
    return {inside: f"{outside}{':ro' if 'ro' in ''.join(how) else ''}" for outside, inside, *how in parts}


@pytest.mark.parametrize(("service", "script"), [("init", INIT), ("keys", KEYS)])
def test_scripts_are_where_they_are_started(service: str, script: Path) -> None:
    shell, started = SERVICES[service]["entrypoint"]
    assert shell == "/bin/sh"
    assert _mounts(service)["/compose"] == "./deploy/compose:ro"
    assert (ROOT / "deploy/compose" / started.removeprefix("/compose/")).resolve() == script


def test_keys_are_made_by_one_and_read_by_who_needs_them() -> None:
    """Private to the compose file: nothing of it is written to the host, or into an image."""
    assert set(COMPOSE["volumes"]) == {"keys"}
    assert {name: _mounts(name).get("/keys") for name in SERVICES if _mounts(name)} == {
        "keys": "keys",
        "service": "keys:ro",
        "worker": "keys:ro",
        "init": "keys:ro",
    }
    waits = SERVICES["service"]["depends_on"]
    assert waits == {"keys": {"condition": "service_completed_successfully"}}
    assert SERVICES["keys"]["environment"]["KEY_OWNER"] in " ".join(
        rest for word, rest in dockerfile("service") if word == "USER"
    )
    # It needs openssl, and the user of the service.
    assert SERVICES["keys"]["build"] == SERVICES["service"]["build"]
    assert any("openssl" in rest for word, rest in dockerfile("service") if word == "RUN")


def test_keys_are_made_once_and_are_what_the_service_and_the_plugin_take(tmp_path: Path) -> None:
    environment_ = {"KEYS": str(tmp_path), "KEY_OWNER": str(os.getuid()), "PATH": os.environ["PATH"]}
    for _ in range(2):
        subprocess.run(["/bin/sh", str(KEYS)], env=environment_, check=True, capture_output=True)
        made = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
        assert set(made) == {"token", "cert.pem", "key.pem"}
    assert re.fullmatch(r"[0-9a-f]{64}\n", made["token"])
    given = SERVICES["service"]["environment"]
    settings = load_settings(
        host="0.0.0.0",
        **{
            name: tmp_path / given[f"{ENV_PREFIX}{name.upper()}"].removeprefix("/keys/")
            for name in ("auth_token_file", "tls_cert", "tls_key")
        },
    )
    assert settings.tokens().changing == (made["token"].strip(),)
    assert (tmp_path / "key.pem").stat().st_mode & 0o77 == 0
    names = subprocess.run(
        ["openssl", "x509", "-in", str(tmp_path / "cert.pem"), "-noout", "-ext", "subjectAltName"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(name in names.stdout for name in ("DNS:service", "DNS:localhost", "IP Address:127.0.0.1"))
    before = made
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == before


def test_connectors_and_worker_know_the_key_and_where_to() -> None:
    worker = properties(DEPLOY / "worker.properties")
    assert worker["config.providers"].split(",") == ["env", "directory"]
    folder = worker["config.providers.directory.param.allowed.paths"]
    for path in CONNECTORS:
        config = _config(path)
        assert config["bridge.auth.token"] == f"${{directory:{folder}:token}}"
        assert config["bridge.ssl.truststore.location"] == f"{folder}/cert.pem"


def test_the_image_starts_with_a_token_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment("service").items():
        if name.startswith(ENV_PREFIX):
            monkeypatch.setenv(name, value)
    with pytest.raises(SettingsRejected, match="MIRROR_BRIDGE_AUTH_TOKEN_FILE"):
        load_settings()
    assert load_settings(auth_token="given").host == "0.0.0.0"


def test_who_waits_for_health_waits_for_somebody_with_a_health_check() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            if name == "keys":  # it ends
                continue
            assert how == {"condition": "service_healthy"}
            waited = SERVICES[name]
            image = waited.get("build", {}).get("dockerfile", "")
            assert "test" in waited.get("healthcheck", {}) or health_check(Path(image).name.partition(".")[0])


def test_health_checks_ask_for_paths_that_exist() -> None:
    contract = json.loads(files("bridge.protocol").joinpath("openapi.json").read_text("utf-8"))
    for command, path in (
        (SERVICES["service"]["healthcheck"]["test"][1:], "/health/ready"),
        (health_check("service"), "/health/live"),
    ):
        assert command[0] == "/opt/mirror-bridge/bin/python"
        compile(command[2], "health check", "exec")
        assert re.findall(r"/health\S*?(?=[\"'])", command[2]) == [path]
        assert path in contract["paths"]
    curl = health_check("worker")
    assert (curl[0], urlsplit(curl[-1]).path) == ("curl", "/health")
    assert ("RUN", "apk add --no-cache curl") in dockerfile("worker")
    allowed = properties(DEPLOY / "worker.properties")["config.providers.directory.param.allowed.paths"]
    assert ("RUN", f"mkdir {allowed}") in dockerfile("worker")


def test_the_service_image_has_the_tested_versions() -> None:
    def pins(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", path.read_text("utf-8"), re.MULTILINE))

    service, tested = pins(DEPLOY / "service.requirements.txt"), pins(ROOT / "requirements.txt")
    assert service
    assert service.items() <= tested.items()
    assert "pytest" not in service


def test_the_service_image_installs_those_and_a_java_for_spark() -> None:
    made = dockerfile("service")
    copied = [rest.split() for word, rest in made if word == "COPY"]
    (there,) = [
        target for source, target in (words for words in copied if len(words) == 2) if source.endswith(".txt")
    ]
    installs = [rest for word, rest in made if word == "RUN" and "pip install" in rest]
    assert any(f"--require-hashes -r {there}" in each for each in installs)
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)
    run = [rest for word, rest in made[_last(made, "FROM") :] if word == "RUN"]
    assert any("apt-get install" in each and "openjdk-17-jre-headless" in each for each in run)
    pythons = [re.match(r"python:(3\.\d+)-(?:slim-)?(\w+)", rest) for word, rest in made if word == "FROM"]
    assert len({one.groups() for one in pythons if one}) == 1, "a venv is of one Python and one Debian"
    assert None not in pythons


def _last(made: list[tuple[str, str]], word: str) -> int:
    return max(at for at, (each, _) in enumerate(made) if each == word)


def test_every_setting_of_the_service_is_one_that_it_has() -> None:
    given = {**environment("service"), **SERVICES["service"]["environment"]}
    ours = {name for name in given if name.startswith(ENV_PREFIX)} - OF_COMMANDS
    assert {name.removeprefix(ENV_PREFIX).lower() for name in ours} <= set(Settings.model_fields)
    grace = Settings.model_fields["shutdown_grace_seconds"].default
    assert float(SERVICES["service"]["stop_grace_period"].removesuffix("s")) > grace


def test_worker_variables_are_all_given() -> None:
    expected = re.findall(r"\$\{env:(\w+)}", (DEPLOY / "worker.properties").read_text("utf-8"))
    given = SERVICES["worker"]["environment"]
    assert set(expected) == {name for name in given if name.startswith("CONNECT_")}


def test_the_worker_finds_the_plugin_where_the_image_has_it() -> None:
    (copied,) = [
        rest for word, rest in dockerfile("worker") if word == "COPY" and rest.startswith("--from=shim")
    ]
    assert properties(DEPLOY / "worker.properties")["plugin.path"] == copied.split()[-1]
    (started,) = [json.loads(rest) for word, rest in dockerfile("worker") if word == "ENTRYPOINT"]
    copies = [rest.split() for word, rest in dockerfile("worker") if word == "COPY"]
    assert ["deploy/worker.properties", started[-1]] in copies


def _kind(config: dict[str, str]) -> Kind:
    name = config["connector.class"]
    (result,) = [
        kind
        for kind in check_context(Policy()).kinds.values()
        if name in (kind.connector_class, kind.connector_class.rpartition(".")[2])
    ]
    return result


@pytest.mark.parametrize("path", CONNECTORS, ids=lambda path: path.stem)
def test_connectors_are_valid_and_their_classes_are_in_the_plugin(path: Path) -> None:
    config = _config(path)
    kind = _kind(config)
    assert kind.validate(config, check_context(Policy()).clients).errors == ()
    assert set(config) - OF_CONNECT <= set(kind.definition.keys)
    services = SHIM / "resources/META-INF/services/org.apache.kafka.connect.source.SourceConnector"
    assert kind.connector_class in services.read_text("utf-8").splitlines()
    assert (SHIM / "java" / f"{kind.connector_class.replace('.', '/')}.java").exists()


def test_the_service_takes_these_connectors_and_no_other_address() -> None:
    given = SERVICES["service"]["environment"]
    bootstrap, folders = (
        given[f"MIRROR_BRIDGE_ALLOWED_{name}"].split(",") for name in ("BOOTSTRAP", "FOLDERS")
    )
    policy = Policy(bootstrap=tuple(bootstrap), folders=tuple(folders), open_to_others=True)
    for path in (DEPLOY / "compose").glob("*.json"):
        config = _config(path)
        assert refused(config, policy) == []
        elsewhere = config | {"target.cluster.bootstrap.servers": "elsewhere:9092"}
        assert [error.key for error in refused(elsewhere, policy)] == ["target.cluster.bootstrap.servers"]


def test_no_container_gets_privileges() -> None:
    """But what makes the keys, as root, for another user."""
    for name, each in SERVICES.items():
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "devices", "network_mode", "pid"} & each.keys(), name
    assert {name for name, each in SERVICES.items() if "user" in each or "cap_add" in each} == {"keys"}
    assert SERVICES["keys"]["cap_add"] == ["CHOWN", "DAC_OVERRIDE", "FOWNER"]


def test_every_topic_has_as_many_replicas_as_there_are_brokers() -> None:
    """One: with the default of two or three nothing could be made."""
    config = _config(DEPLOY / "compose" / "source.json")
    keys = {key for key in _kind(config).definition.keys if key.endswith("replication.factor")}
    assert {key: config[key] for key in keys} == dict.fromkeys(keys, "1")


def test_init_is_a_script_that_is_given_what_it_wants() -> None:
    text = INIT.read_text("utf-8")
    done = subprocess.run(["sh", "-n", str(INIT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = set(re.findall(r"\$\{(\w+):\?}", text))
    given = SERVICES["init"]["environment"]
    assert expected == set(given) - {"KAFKA_HEAP_OPTS"}
    assert given["KAFKA_BIN"] == KAFKA_BIN
    assert sorted(re.findall(r"^put (\S+)$", text, re.MULTILINE)) == [path.stem for path in CONNECTORS]
    assert SERVICES["init"]["healthcheck"] == {"disable": True}
    assert SERVICES["init"]["build"] == SERVICES["worker"]["build"], "it needs curl and Kafka's scripts"


def test_every_script_of_kafkas_that_we_call_is_known() -> None:
    texts = [INIT.read_text("utf-8"), (DEPLOY / "worker.Dockerfile").read_text("utf-8"), *README]
    texts += [" ".join(SERVICES[name]["healthcheck"]["test"]) for name in BROKERS]
    called = {each for text in texts for each in re.findall(rf"{KAFKA_BIN}/([\w-]+\.sh)", text)}
    called |= {f"{tool}.sh" for tool in re.findall(r"\bkafka (kafka-[\w-]+)", INIT.read_text("utf-8"))}
    assert called == set(SCRIPTS)


def test_what_the_readme_types_names_what_is_there() -> None:
    asked = [shlex.split(line) for line in README]
    composed = [words for words in asked if words[:2] == ["docker", "compose"]]
    named = {words[3] for words in composed if words[2] in ("exec", "stop", "start")}
    named |= {words[-1] for words in composed if words[2] == "logs"}
    assert named == {"init", "cluster-a", "cluster-b", "service", "worker"}
    urls = [word for words in asked for word in words if re.search(r":\d+/", word)]
    ports = {urlsplit(url if "://" in url else f"//{url}").port for url in urls}
    assert {str(port) for port in ports} == {*_published("service"), *_published("worker")}
    inside = [
        words[words.index("--bootstrap-server") + 1] for words in composed if "--bootstrap-server" in words
    ]
    assert set(inside) == {"localhost:19092"}


def test_docker_accepts_the_compose_file() -> None:
    try:
        result = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no docker client")
    if result.returncode != 0:
        pytest.skip("the docker client has no compose")
    command = ["docker", "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
