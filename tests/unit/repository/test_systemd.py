"""The unit of deploy/systemd: its settings exist, and it closes what the service does not need."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict

from bridge.settings import ENV_PREFIX, Settings, load_settings
from tests.unit.repository.deployed import DEPLOY

UNIT = DEPLOY / "systemd" / "mirror-bridge.service"
CLOSED = {
    "DynamicUser": "yes",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "UMask": "0077",
    "LimitCORE": "0",
}
MOST_EXPOSED = 20
"""Tenths, of 100, as systemd-analyze counts them."""


def keys() -> dict[str, list[str]]:
    """The values of each key, in the order of the file; of all sections, which share none."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def test_what_the_service_does_not_need_is_closed() -> None:
    found = keys()
    assert {key: found[key] for key in CLOSED} == {key: [value] for key, value in CLOSED.items()}
    assert "@privileged" in found["SystemCallFilter"][-1]


def test_each_setting_exists_and_the_token_is_a_credential() -> None:
    found = keys()
    variables = dict(each.split("=", 1) for line in found["Environment"] for each in line.split())
    named = [name.removeprefix(ENV_PREFIX).lower() for name in variables if name.startswith(ENV_PREFIX)]
    assert named
    assert set(named) <= Settings.model_fields.keys()
    (credential,) = found["LoadCredential"]
    assert variables["MIRROR_BRIDGE_AUTH_TOKEN_FILE"] == f"%d/{credential.partition(':')[0]}"
    assert int(found["TimeoutStopSec"][0]) > load_settings().shutdown_grace_seconds


def test_systemd_finds_it_closed() -> None:
    """Where there is a systemd that looks at files, as from version 250 on; the keys above hold without it."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    version = subprocess.run((analyze, "--version"), capture_output=True, text=True, timeout=60, check=True)
    if int(version.stdout.split()[1]) < 250:
        return
    command = (analyze, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(UNIT))
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
