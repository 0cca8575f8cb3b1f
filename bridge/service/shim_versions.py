"""What the shim is answered when a call of it is taken, and which versions of it are."""

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
            f"The shim speaks protocol {theirs}, this service ({VERSION}) protocol {PROTOCOL}: "
            "they may differ by one. Upgrade the older of the two."
        )


def accepted(known: Connector, task: int | None) -> Accepted:
    return Accepted(name=known.name, task=task, lease_ms=known.lease_ms, version=VERSION, protocol=PROTOCOL)
