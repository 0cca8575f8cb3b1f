"""The OpenAPI document without a service: parts that are made and never started."""

from __future__ import annotations

from bridge.service.checks.context import CheckContext
from bridge.service.http.app import create_app, text
from bridge.service.serve import build_service
from bridge.settings import Settings
from connectors.ports import ClientCheck


def contract() -> str:
    """The document as it is checked in (bridge/protocol/openapi.json)."""
    checks = CheckContext({}, _NoCheck())
    return text(create_app(build_service(Settings.model_construct(), checks)))


class _NoCheck(ClientCheck):
    def check(self, props: object) -> tuple[()]:
        return ()

    def check_producer(self, side: object, props: object) -> tuple[()]:
        return ()

    def rule(self, use: object, name: object) -> None:
        return None

    properties = ()
