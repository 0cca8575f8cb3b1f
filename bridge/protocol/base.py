"""The base of all messages of the contract."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of all messages: frozen, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
