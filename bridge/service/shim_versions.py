"""Checks the protocol version of the shim, and builds the answer to its calls."""

from __future__ import annotations

from bridge import PROTOCOL, VERSION
from bridge.errors import BridgeError, ErrorCode
from bridge.protocol.messages import Accepted
from bridge.service.state.connector_entry import Connector


class ProtocolRejected(BridgeError):
    code = ErrorCode.UNSUPPORTED_PROTOCOL
    status = 400


def check_protocol(theirs: int) -> None:
    if abs(theirs - PROTOCOL) > 1:
        raise ProtocolRejected(
            f"The Connect plugin has protocol {theirs}, this service ({VERSION}) has protocol {PROTOCOL}: "
            "they may differ by one. Upgrade the older of the two."
        )


def accepted(connector: Connector, task: int | None) -> Accepted:
    return Accepted(
        name=connector.name, task=task, lease_ms=connector.lease_ms, version=VERSION, protocol=PROTOCOL
    )
