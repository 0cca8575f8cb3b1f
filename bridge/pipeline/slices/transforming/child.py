"""The process that transforms run in: `python -m bridge.pipeline.slices.transforming.child FD`, one for a slice.

Apart from the slice, so that what is slow, takes too much memory or dies there harms nothing else, and can be ended.
Frames go both ways over a socket (`FD`): a header as JSON, and a batch as Arrow's IPC has it, or nothing.

    to the process     {"transforms": [[name, function, parameters, to], …], "memory": bytes}    once, first
                       {"chain": [number, …]} and a batch
    back               {"ready": true}, or {"unusable": why, "transform": number}
                       {"begin": number} for each transform; then a batch under {}, or {"failed": why, "memory": bool}

The end of the input is the end of the process: it never outlives the slice.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bridge.environment import end_with
from bridge.transforms.contract import SCHEMA, ContractBroken, Transform, call, nothing

HEAD = struct.Struct(">II")
"""Bytes of the header, and of what follows it."""
_MASKS = "bridge.transforms.mask_fields"
_LONGEST = 300
"""Characters of an error text that is passed on."""


def pack(header: Mapping[str, object], body: int = 0) -> bytes:
    """The frame's head for a body of so many bytes."""
    text = json.dumps(header).encode()
    return HEAD.pack(len(text), body) + text


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with, args=(channel,), daemon=True).start()
    pa.set_cpu_count(1)
    setup, _ = _receive(channel)
    if any(function == _MASKS for _, function, _, _ in setup["transforms"]):
        # It takes some seconds where its machine code is not kept, and memory: none of it is a call's.
        importlib.import_module("bridge.transforms.masks.masking")
    transforms: list[tuple[Transform, dict[str, str], list[str]]] = []
    for number, (_, function, parameters, to) in enumerate(setup["transforms"]):
        try:
            transforms.append((_load(function), parameters, to))
        except Exception as error:
            _send(channel, {"unusable": _reason(error, None), "transform": number})
            return
        try:
            call(transforms[-1][0], parameters, nothing(), to)
        except Exception as error:
            reason = f"called with a batch without records, {_reason(error, transforms[-1][0])}"
            _send(channel, {"unusable": reason, "transform": number})
            return
    _limit_memory(setup["memory"])
    _send(channel, {"ready": True})
    while True:
        header, body = _receive(channel)
        transform: Transform | None = None
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(body), SCHEMA)
            for number in header["chain"]:
                _send(channel, {"begin": number})
                transform, parameters, to = transforms[number]
                batch = call(transform, parameters, batch, to)
                if not batch.num_rows:
                    break
            answer = batch.serialize()
        except MemoryError:
            _send(channel, {"failed": "", "memory": True})
        except Exception as error:
            _send(channel, {"failed": _reason(error, transform), "memory": False})
        else:
            _send(channel, {}, answer)


def _load(function: str) -> Transform:
    module, _, name = function.rpartition(".")
    transform: Transform = getattr(importlib.import_module(module), name)
    return transform


def _reason(error: Exception, transform: Transform | None) -> str:
    """The text for an error: what failed, and in which line of the transform's file."""
    if isinstance(error, ContractBroken):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0][:_LONGEST]
    file = getattr(getattr(transform, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f" ({Path(str(file)).name}, line {lines[-1]})" if lines else ""
    return f"it failed with {type(error).__name__}: {first}{where}"


def _limit_memory(size: int) -> None:
    """Limits the process's memory to so many bytes more than are in use now, where the system has such limits
    (Linux)."""
    try:
        import resource

        status = Path("/proc/self/status").read_text("utf-8")
        (used,) = (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + size, hard))
    except (ImportError, OSError, ValueError):
        return


def _send(channel: socket.socket, header: Mapping[str, object], body: Any = b"") -> None:
    channel.sendall(pack(header, len(body)))
    if len(body):
        channel.sendall(body)


def _receive(channel: socket.socket) -> tuple[dict[str, Any], bytearray]:
    header, body = HEAD.unpack(_exactly(channel, HEAD.size))
    return json.loads(_exactly(channel, header)), _exactly(channel, body)


def _exactly(channel: socket.socket, size: int) -> bytearray:
    data, position = bytearray(size), 0
    while position < size:
        got = channel.recv_into(memoryview(data)[position:])
        if not got:
            os._exit(0)
        position += got
    return data


__all__: Sequence[str] = ["HEAD", "main", "pack"]

if __name__ == "__main__":
    main()
