"""A realm of Kerberos with its KDC, by MIT's programs, and a broker of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bridge.local import eventually
from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.processes import LOOPBACK, ManagedProcess, ReservedPort, listening
from tests.support.waits import WAIT

REALM = "EXAMPLE.ORG"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kdestroy")
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def programs_lacking() -> str:
    """Which of MIT's programs are not on the PATH; "" when all are."""
    return ", ".join(name for name in PROGRAMS if shutil.which(name) is None)


@dataclass(frozen=True)
class Realm:
    """A Kerberos realm. `environment`: what MIT's programs and libraries of this realm need."""

    folder: Path
    environment: Mapping[str, str]
    kdc: ManagedProcess
    port: int

    def start(self) -> None:
        """Starts the KDC, which listens then."""
        self.kdc.start()
        eventually(lambda: listening(self.port), WAIT, what="the KDC listens", watched=[self.kdc])

    def keytab(self, principal: str) -> Path:
        """Creates a principal with a random key; returns its keytab."""
        file = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.kadmin(f"addprinc -randkey {principal}")
        self.kadmin(f"ktadd -k {file} {principal}")
        return file

    def kadmin(self, query: str) -> None:
        """Runs a kadmin query."""
        _run("kadmin.local", "-q", query, environment=self.environment)

    def jaas(self, principal: str, keytab: Path) -> str:
        return f'{KRB5} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}";'


@contextmanager
def realm(folder: Path, environment: Mapping[str, str]) -> Iterator[Realm]:
    """Runs a KDC for the time of the block. `environment`: of this process."""
    port = ReservedPort()
    port.release()  # the KDC sets no SO_REUSEADDR
    krb5, kdc = folder / "krb5.conf", folder / "kdc.conf"
    krb5.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
        " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f" default_ccache_name = FILE:{folder}/ccache\n"
        f"[realms]\n {REALM} = {{\n  kdc = {port.address}\n }}\n"
    )
    modules = environment.get("KRB5_DB_MODULES")
    kdc.write_text(
        f"[kdcdefaults]\n kdc_listen = {port.address}\n kdc_tcp_listen = {port.address}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n }}\n"
        + (f"[dbmodules]\n db_module_dir = {modules}\n" if modules else "")
    )
    own = {**environment, "KRB5_CONFIG": str(krb5), "KRB5_KDC_PROFILE": str(kdc)}
    _run("kdb5_util", "create", "-s", "-P", "of-the-test", "-r", REALM, environment=own)
    process = ManagedProcess("kdc", ["krb5kdc", "-n"], folder / "kdc.log", environment=own)
    made = Realm(folder, own, process, port.number)
    made.start()
    try:
        yield made
    finally:
        process.kill()


class KerberosBroker(Broker):
    """Takes GSSAPI on a listener SASL_PLAINTEXT."""

    def __init__(self, directory: Path, of: Realm) -> None:
        super().__init__("kerberos", kafka_jars(), directory)
        principal = f"kafka/{LOOPBACK}"
        self._jaas = of.jaas(principal, of.keytab(principal))
        self._ports["SASL_PLAINTEXT"] = ReservedPort()
        options = {"JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={of.environment['KRB5_CONFIG']}"}
        self.process = ManagedProcess("kerberos broker", [], directory / "broker.log", environment=options)

    def _properties(self) -> dict[str, str]:
        return {
            **super()._properties(),
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": self._jaas,
        }


def _run(*command: str, environment: Mapping[str, str]) -> None:
    ran = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
