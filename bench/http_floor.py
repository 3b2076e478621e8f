"""What any answer costs, without a task: two servers that answer at once.

`python -m bench.http_floor` is a bare ASGI callable under uvicorn: no routing, no checks, two
headers. `python -m bench.http_floor STORE ACCESS_FILE AUDIT_LOG` is our own server, gate and audit
log and all, but for the handler of `POST /v1/tasks`, which does nothing. Both print their port.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Raw
from msgspec.structs import replace
from starlette.types import ASGIApp

from stayer.http.route import Answer, Call
from stayer.http.routes import ROUTES
from stayer.http.server import make_app
from stayer.http.service import Service, Settings
from stayer.http.submit import submit
from stayer.http.token_places import TokenFile
from stayer.http.tokens import Access
from stayer.stores import open_store

ANSWER = b'{"id":"' + b"x" * 16 + b'","queue":"q","state":"pending","fresh":true}'


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Read the body, answer something."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


async def nothing(call: Call) -> Answer:
    """The handler that does nothing."""
    return Answer(Raw(ANSWER), 201, {"location": "/v1/tasks/xxxxxxxxxxxxxxxx"})


def ours(store: str, access_file: str, audit_log: str) -> ASGIApp:
    """This very server, with that handler."""
    table = tuple(
        replace(route, wait=nothing) if route.wait is submit else route for route in ROUTES
    )
    service = Service(
        open_store(store), Access(TokenFile(Path(access_file))), Settings(audit_log=audit_log)
    )
    return make_app(service, table)


def main() -> None:
    """On a free port, which it prints."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    print(listening.getsockname()[1], flush=True)
    app: Any = ours(*sys.argv[1:]) if sys.argv[1:] else bare
    config = uvicorn.Config(app, ws="none", log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
