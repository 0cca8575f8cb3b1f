"""Ends child processes, which hold a channel to their parent, when the parent ends."""

from __future__ import annotations

import os
import select
import socket


def end_with(channel: socket.socket) -> None:
    """Ends this process, whatever it does, when the other end of the channel is closed. Blocking: for a thread."""
    poll = select.poll()
    poll.register(channel, 0)
    poll.poll()
    os._exit(0)
