"""Files that come along with tasks."""

from __future__ import annotations

import hashlib

from starlette.responses import Response

from stayer.core.code import check_sha256
from stayer.core.errors import BadInput, UnknownFile
from stayer.http.route import Call


def put(call: Call) -> Response:
    """Keep a file, or keep the one that is there for longer."""
    sha256, data = check_sha256(call.path["sha256"]), call.body
    is_it = hashlib.sha256(data).hexdigest() == sha256
    if data and not is_it:
        raise BadInput(f"the body has another sha256 than {sha256}: send the file as it is")
    if not call.store.put_file(sha256, data if is_it else None):
        raise _unknown(sha256)
    return Response(status_code=204)


def get(call: Call) -> Response:
    """Answer with a file."""
    sha256 = check_sha256(call.path["sha256"])
    data = call.store.get_file(sha256)
    if data is None:
        raise _unknown(sha256)
    return Response(data, media_type="application/octet-stream")


def _unknown(sha256: str) -> UnknownFile:
    return UnknownFile(f"no file with the sha256 {sha256}: send it first, with PUT")
