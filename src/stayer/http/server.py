"""Running it: uvicorn around the gate."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

import uvicorn
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from stayer.core.errors import BadInput, Refused
from stayer.http.app import Gate
from stayer.http.protocol import Connections
from stayer.http.route import Route
from stayer.http.routes import ROUTES
from stayer.http.service import Service, Settings
from stayer.http.tokens import Access
from stayer.store import Store

_BACKLOG = 1024
_SHUTDOWN_GRACE_S = 5
"""How long open requests may take when the server ends, in seconds."""


def make_app(service: Service, routes: tuple[Route, ...] = ROUTES) -> ASGIApp:
    """Make the server as an ASGI application."""
    plain = Gate(service, routes)
    packed = GZipMiddleware(plain, minimum_size=1000, compresslevel=5)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Programs that submit seldom ask for it, and it costs them a tenth of their speed.
        for name, value in scope.get("headers", ()):
            if name == b"accept-encoding" and b"gzip" in value:
                await packed(scope, receive, send)
                return
        await plain(scope, receive, send)

    return app


class Server(uvicorn.Server):
    """Ends its streams first when it is to end: else it would wait for them."""

    def __init__(self, store: Store, access: Access, settings: Settings) -> None:
        """Listen at once, so that a port that is taken is said at once."""
        limits = settings.limits
        connections = Connections(limits, settings.trusted_proxies)
        self._service = Service(store, access, settings, connections.most)
        self._socket = _listen(settings)
        self.url = _url(settings, self._socket.getsockname()[1])
        self._handshake_time = limits.header_time if settings.certificate else None
        super().__init__(
            uvicorn.Config(
                make_app(self._service),
                http=connections.protocol(),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=list(settings.trusted_proxies),
                timeout_keep_alive=int(limits.idle_time) + 1,
                timeout_graceful_shutdown=_SHUTDOWN_GRACE_S,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.private_key,
            )
        )

    def serve_now(self) -> None:
        """Serve until a signal ends it, or `should_exit` is set."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self.run(sockets=[self._socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening; unlike uvicorn's own, which leaves a TLS handshake a whole minute."""
        assert sockets is not None
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(3)
        config, loop = self.config, asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            return config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state
            )

        self.servers = [
            await loop.create_server(
                connection, sock=each, ssl=config.ssl, backlog=_BACKLOG,
                ssl_handshake_timeout=self._handshake_time,
            )
            for each in sockets
        ]  # fmt: skip
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.close_streams()
        await super().shutdown(sockets)


def _url(settings: Settings, port: int) -> str:
    """Return where people find it."""
    scheme = "https" if settings.certificate else "http"
    host = settings.host
    if settings.host_names:
        host = settings.host_names[0]
    elif host in ("0.0.0.0", "::", ""):
        host = "localhost"
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port}{settings.root_path}"


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        if isinstance(error, socket.gaierror):
            raise BadInput(f"--host {settings.host}: {error.strerror}") from None
        raise Refused(f"can't listen on {where}: {error.strerror}. Choose another --port") from None
    return listening
