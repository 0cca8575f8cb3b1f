"""What can be said of deploy/kubernetes and of the configurations in docs/spark.md without a cluster: they agree with
each other, and the service takes them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from bridge import VERSION
from bridge.policy import Policy
from bridge.service.wiring import check_context
from bridge.settings import ENV_PREFIX, Settings
from connectors.source.connector import KIND
from tests import ROOT
from tests.unit.repository.deployed import DEPLOY

PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((DEPLOY / "kubernetes" / "service.yaml").read_text("utf-8"))
)
APPLICATION: dict[str, Any] = yaml.safe_load(
    (DEPLOY / "kubernetes" / "spark-application.yaml").read_text("utf-8")
)["spec"]
FLOW = {
    "name": "mirror",
    "connector.class": KIND.connector_class,
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
SECRETS = {
    "${file:/etc/mirror/spark.properties:secret}": "s3cr3t",
    "${file:/etc/mirror/spark.properties:token}": "t",
}


def manifest(kind: str) -> dict[str, Any]:
    (found,) = [each for each in MANIFESTS if each["kind"] == kind]
    return found


def section(name: str) -> str:
    return PAGE.partition(f"### {name}\n")[2].partition("\n### ")[0]


def config(name: str) -> dict[str, str]:
    """The keys of a section's example."""
    (block,) = re.findall(r"```json\n(.*?)```", section(name), re.DOTALL)
    read: dict[str, str] = json.loads(f"{{{block}}}")
    return {key: SECRETS.get(value, value) for key, value in read.items()}


def allowed(name: str) -> Policy:
    """What the section's example sets in the service's environment."""
    given = dict(re.findall(r"^    (MIRROR_BRIDGE_ALLOWED_\w+)=(.*)$", section(name), re.MULTILINE))
    return policy(given)


def policy(given: dict[str, str]) -> Policy:
    masters, keys = (
        tuple(filter(None, given.get(f"MIRROR_BRIDGE_ALLOWED_SPARK_{what}", "").split(",")))
        for what in ("MASTERS", "KEYS")
    )
    return Policy(spark_masters=masters, spark_keys=keys)


@pytest.mark.parametrize("name", ["Standalone", "Kubernetes", "YARN", "Spark Connect"])
def test_the_service_takes_each_example_as_the_page_allows_it(name: str) -> None:
    given = {**FLOW, **config(name)}
    assert list(KIND.validate(given, check_context(allowed(name)).clients).errors) == []
    assert KIND.validate(given, check_context(Policy()).clients).errors != ()


def container() -> dict[str, Any]:
    (only,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    read: dict[str, Any] = only
    return read


def test_the_pod_of_the_service_is_the_driver_that_the_page_describes() -> None:
    given = {each["name"]: each["value"] for each in container()["env"]}
    assert {name.removeprefix(ENV_PREFIX).lower() for name in given} <= set(Settings.model_fields)
    assert policy(given) == allowed("Kubernetes")
    keys, service = config("Kubernetes"), manifest("Service")
    where = service["metadata"]
    assert keys["spark.driver.host"] == f"{where['name']}.{where['namespace']}.svc"
    assert keys["spark.kubernetes.namespace"] == where["namespace"]
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    assert ports == {each["name"]: each["containerPort"] for each in container()["ports"]}
    assert ports["driver"] == int(keys["spark.driver.port"])
    assert ports["blocks"] == int(keys["spark.driver.blockManager.port"])
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_all_are_of_one_namespace_and_one_account() -> None:
    assert {each["metadata"]["namespace"] for each in MANIFESTS} == {"mirror"}
    account = manifest("ServiceAccount")["metadata"]["name"]
    assert manifest("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert [each["name"] for each in manifest("RoleBinding")["subjects"]] == [account]
    assert manifest("RoleBinding")["roleRef"]["name"] == manifest("Role")["metadata"]["name"]
    assert APPLICATION["driver"]["serviceAccount"] == account
    assert config("Kubernetes")["spark.kubernetes.authenticate.serviceAccountName"] == account


def test_the_service_has_time_to_end_and_its_own_version() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > Settings.model_fields["shutdown_grace_seconds"].default
    assert container()["image"].endswith(f":{VERSION}")
    mounted = container()["volumeMounts"][0]["mountPath"]
    given = {each["name"]: each["value"] for each in container()["env"]}
    files = [given[f"{ENV_PREFIX}{name}"] for name in ("AUTH_TOKEN_FILE", "TLS_CERT", "TLS_KEY")]
    assert [each for each in files if not each.startswith(f"{mounted}/")] == []


def test_the_operator_starts_what_is_there() -> None:
    main = APPLICATION["mainApplicationFile"]
    assert main.startswith("local:///")
    assert (ROOT / "bridge" / "submit.py").is_file()
    assert main.endswith("/bridge/submit.py")
    option, path = APPLICATION["arguments"]
    assert option == "--config"
    (secret,) = APPLICATION["driver"]["secrets"]
    assert path.startswith(f"{secret['path']}/")
    assert {value for value in APPLICATION["sparkConf"].values() if not isinstance(value, str)} == set()
    pinned = re.search(r"^pyspark==(\S+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    assert APPLICATION["sparkVersion"] == pinned[1]
    assert APPLICATION["image"].endswith(f":{pinned[1]}")


def test_the_pod_has_no_more_rights_than_it_needs() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["mountPath"] for each in container()["volumeMounts"]}
    image = (ROOT / "deploy" / "service.Dockerfile").read_text("utf-8")
    assert {"/tmp", *re.findall(r"NUMBA_CACHE_DIR=(\S+)", image)} <= mounted
    assert f"--uid {pod['securityContext']['runAsUser']} " in image
    assert {each["name"] for each in container()["env"] if "_ALLOWED_" in each["name"]} == {
        f"MIRROR_BRIDGE_ALLOWED_{what}"
        for what in ("SPARK_MASTERS", "SPARK_KEYS", "BOOTSTRAP", "TOKEN_ENDPOINTS", "FOLDERS")
    }


def test_only_who_has_to_reaches_it() -> None:
    policy_ = manifest("NetworkPolicy")["spec"]
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy_["podSelector"]["matchLabels"].items() <= labels.items()
    open_ = {port["port"]: each["from"] for each in policy_["ingress"] for port in each["ports"]}
    assert set(open_) == {each["containerPort"] for each in container()["ports"]}
    assert all(open_.values())
