"""The base of all messages of the contract, and its one error body."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of all messages: frozen, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ValidationError(Message):
    """One error of one configuration key."""

    key: str
    message: str


class ErrorBody(Message):
    """The one error body, of every status from 400 up."""

    error_code: str
    message: str
    validation_errors: list[ValidationError] = []
    retriable: bool = False
