"""HTTP/1.1 as uvicorn reads it, with our error body for what is not HTTP at all."""

from __future__ import annotations

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bridge.errors import ErrorCode
from bridge.protocol.messages import ErrorBody


class Http11(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        body = ErrorBody(error_code=ErrorCode.BODY_REJECTED, message=msg).model_dump_json().encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        events = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
