"""How a result is written to the file `result` of a run directory."""

from __future__ import annotations

from stayer.core import codec
from stayer.core.errors import BadInput


def encode_result(value: object) -> bytes | None:
    """Encode a result as the worker reads it: JSON, or bytes that are none; None if there is
    nothing to write. Raises BadInput.
    """
    codec.pack(value, "the result", codec.RESULT_LIMIT)  # type: ignore[arg-type]  # it complains
    if value is None:
        return None
    if not isinstance(value, bytes | bytearray | memoryview):
        return codec.encode(value).encode()  # type: ignore[arg-type]
    data = bytes(value)
    try:
        codec.parse(data, "the result")
    except BadInput:
        if data:
            return data
    import base64

    return codec.encode({"base64": base64.b64encode(data).decode()}).encode()
