"""A client of Connect's REST API, for commands and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from bridge.local.processes import NO_AUTHORITIES, START_SECONDS, ConnectFailed, Watched, eventually

Json = Any
"""JSON of Connect; callers know its form."""

_CONFLICT, _SERVER_ERROR = 409, 500
_RETRIABLE = ("rebalance", "momentarily")
"""Words in the message of a conflict that a retry resolves: a rebalance, or "due to stale configuration"
(RebalanceNeededException, StaleConfigException). "Connector … already exists" is one that it does not."""
_EXPECTED = "a rebalance is expected"
"""GET /connectors/NAME/config says it as a server error; all others as a conflict."""
_RETRY_SECONDS = 120.0


class ConnectClient:
    """One worker's REST API. Calls that are refused (409) because of a rebalance, or because the worker has not read
    the newest configuration yet, are repeated."""

    def __init__(self, url: str, watched: Iterable[Watched] = (), patience: float = _RETRY_SECONDS) -> None:
        """`patience`: seconds for which a call is repeated; `watched`: processes without which waiting makes no
        sense."""
        self.url = url
        self._patience = patience
        self._watched = tuple(watched)
        self._http = httpx.Client(base_url=url, timeout=90.0, verify=NO_AUTHORITIES)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **params: str) -> Json:
        return self.call("GET", path, params=params)

    def call(
        self, method: str, path: str, *, body: Json = None, params: Mapping[str, str] | None = None
    ) -> Json:
        """The answer's JSON, None when it has no body. Raises ConnectFailed with Connect's message."""

        def attempt() -> httpx.Response | bool:
            response = self._http.request(method, path, json=body, params=params)
            return False if _retriable(response) else response

        answered = eventually(
            attempt, self._patience, what=f"{method} {path} is answered by Connect", watched=self._watched
        )
        assert isinstance(answered, httpx.Response)
        if answered.is_error:
            raise ConnectFailed(answered.status_code, _message(answered))
        return answered.json() if answered.content else None

    def plugins(self) -> list[Json]:
        return list(self.get("/connector-plugins"))

    def plugin_config(self, connector_class: str) -> list[Json]:
        """Every key of a plugin with type, default, importance, group and documentation."""
        return list(self.get(f"/connector-plugins/{connector_class}/config"))

    def validate(self, connector_class: str, config: Mapping[str, str | None]) -> Json:
        path = f"/connector-plugins/{connector_class}/config/validate"
        return self.call("PUT", path, body=dict(config))

    def validation_errors(
        self, connector_class: str, config: Mapping[str, str | None]
    ) -> dict[str, list[str]]:
        """The errors by key; empty when the configuration is valid."""
        values = (entry["value"] for entry in self.validate(connector_class, config)["configs"])
        return {value["name"]: value["errors"] for value in values if value["errors"]}

    def connectors(self) -> list[str]:
        return list(self.get("/connectors"))

    def put(self, name: str, config: Mapping[str, str | None]) -> Json:
        """Creates the connector or replaces its configuration."""
        return self.call("PUT", f"{_path(name)}/config", body=dict(config))

    def config(self, name: str) -> dict[str, str]:
        return dict(self.get(f"{_path(name)}/config"))

    def status(self, name: str) -> Json:
        return self.get(f"{_path(name)}/status")

    def tasks(self, name: str) -> list[Json]:
        """Each task's id and configuration."""
        return list(self.get(f"{_path(name)}/tasks"))

    def offsets(self, name: str) -> list[Json]:
        return list(self.get(f"{_path(name)}/offsets")["offsets"])

    def alter_offsets(
        self, name: str, offsets: Sequence[tuple[Mapping[str, Json], Mapping[str, Json] | None]]
    ) -> None:
        """Alters the offsets of a stopped connector, by source partition (KIP-875); None removes one."""
        rows = [{"partition": dict(partition), "offset": offset} for partition, offset in offsets]
        self.call("PATCH", f"{_path(name)}/offsets", body={"offsets": rows})

    def pause(self, name: str) -> None:
        self.call("PUT", f"{_path(name)}/pause")

    def resume(self, name: str) -> None:
        self.call("PUT", f"{_path(name)}/resume")

    def stop(self, name: str) -> None:
        self.call("PUT", f"{_path(name)}/stop")

    def restart(self, name: str, *, tasks: bool = True, only_failed: bool = False) -> Json:
        params = {"includeTasks": str(tasks).lower(), "onlyFailed": str(only_failed).lower()}
        return self.call("POST", f"{_path(name)}/restart", params=params)

    def restart_task(self, name: str, task: int) -> None:
        self.call("POST", f"{_path(name)}/tasks/{task}/restart")

    def delete(self, name: str) -> None:
        self.call("DELETE", _path(name))

    def wait_state(
        self, name: str, state: str, *, tasks: int | None = None, timeout: float = START_SECONDS
    ) -> Json:
        """Waits until the connector and all its tasks (`tasks` of them if given) are in the state."""

        def reached() -> Json:
            status = self.status(name)
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            if any(found_state != state for found_state in states) or (
                tasks is not None and len(states) != tasks + 1
            ):
                raise AssertionError(f"connector and tasks of {name} are {states}: {_traces(status)}")
            return status

        return eventually(reached, timeout, what=f"{name} is {state}", watched=self._watched)

    def wait_running(self, name: str, *, tasks: int | None = 1, timeout: float = START_SECONDS) -> Json:
        return self.wait_state(name, "RUNNING", tasks=tasks, timeout=timeout)


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _retriable(response: httpx.Response) -> bool:
    message = response.text.lower()
    if response.status_code == _SERVER_ERROR:
        return _EXPECTED in message
    return response.status_code == _CONFLICT and any(text in message for text in _RETRIABLE)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}: {response.text[:500]}"


def _traces(status: Json) -> str:
    parts = (status["connector"], *status["tasks"])
    return " | ".join(str(part["trace"])[:800] for part in parts if part.get("trace")) or "no trace"
