"""The form of our messages in Flower's records: a JSON header, and bytes that are chunked and sent once for all nodes.

    to a node    ask:  about -> who it is          task -> header of a NodeTask; `body`: its checkpoint
    from a node  about -> its own description      result -> header of a NodeResult; `body`: its checkpoint

The bytes of both are those of `training.task`: nothing here opens them, and nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from ...training.task import BadMessage, pack, unpack

RECORD = "relaytrain"
_BODY = "body"
_STYPE = "relaytrain.bytes"
MOST_ABOUT = 100_000
"""Characters of a node's description of itself."""


def of_frame(frame: bytes) -> RecordDict:
    """A task or result as records: the checkpoint, equal for all nodes of an epoch, is an object of its own."""
    header, body = unpack(frame)
    data = bytes(body)
    array = Array(dtype="uint8", shape=(len(data),), stype=_STYPE, data=data)
    return RecordDict({RECORD: ConfigRecord({"header": json.dumps(header)}), _BODY: ArrayRecord({_BODY: array})})


def to_frame(records: RecordDict, most: int | None = None) -> bytes:
    """The inverse of `of_frame`, for records of any origin.

    Raises:
        BadMessage: they are not such records, or hold more than `most` bytes.
    """
    try:
        text, array = records[RECORD]["header"], records[_BODY][_BODY]
        data = array.data  # type: ignore[union-attr]
    except (KeyError, TypeError, AttributeError, IndexError):
        raise BadMessage("message: not the records of a task or a result") from None
    if not isinstance(text, str) or not isinstance(data, bytes):
        raise BadMessage("message: not the records of a task or a result")
    if most is not None and len(text) + len(data) > most:
        raise BadMessage(f"message: {len(text) + len(data)} bytes, expected at most {most}")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("message: its header is not JSON") from None
    if not isinstance(header, dict):
        raise BadMessage("message: its header is not an object")
    return pack(header, data)


def of_about(about: Mapping[str, Any]) -> RecordDict:
    """A question or a description as records."""
    return RecordDict({RECORD: ConfigRecord({"about": json.dumps(about)})})


def to_about(records: RecordDict) -> dict[str, Any]:
    """The inverse of `of_about`, for records of any origin."""
    try:
        text = records[RECORD]["about"]
        about = json.loads(text) if isinstance(text, str) and len(text) <= MOST_ABOUT else None
    except (KeyError, TypeError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise BadMessage("message: not a node's description of itself")
    return about
