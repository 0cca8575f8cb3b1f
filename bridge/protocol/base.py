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


class ReadinessReason(Message):
    """Why a group is not simply ready: a code, a sentence with what to do, and since when (null for not known).
    `follows_from`: the reason, told before this one, that it is a consequence of."""

    reason: str
    detail: str
    since_ms: int | None = None
    follows_from: str | None = None


class CountedReason(ReadinessReason):
    """A reason that several groups share: so many `groups`, and the `names` of them, or of the first."""

    groups: int = 0
    names: list[str] = []


class Refusal(Message):
    """Why groups can't be moved, or planned. `groups`: so many were asked for, `refused` so many of them, of which so
    many are `not_ready` and `cannot_tell`, and so many were ready, `ready_as_of`, all of them at `as_of_ms`; then
    `missing_records` of the source's records at most were not on the target, null for not known. `option`: what has a
    command take these as they were, "" where nothing has. `reasons`: each once, with all of its groups."""

    groups: int
    refused: int
    not_ready: int = 0
    cannot_tell: int = 0
    ready_as_of: int = 0
    as_of_ms: int | None = None
    missing_records: int | None = None
    option: str = ""
    reasons: list[CountedReason] = []


class ErrorBody(Message):
    """The one error body, of every status from 400 up. `refusal`: of groups that can't be moved, or planned."""

    error_code: str
    message: str
    validation_errors: list[ValidationError] = []
    retriable: bool = False
    refusal: Refusal | None = None
