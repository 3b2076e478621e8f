"""The same server with an empty handler: what any answer costs."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

ANSWER = b'{"id":"' + b"x" * 16 + b'","queue":"q","state":"pending","fresh":true}'


async def app(scope: Any, receive: Any, send: Any) -> None:
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


def main() -> None:
    """On a free port, which it prints."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, ws="none", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
