"""Links to log in with a browser, for `serve` and `token link`."""

from __future__ import annotations

from stayer.cli.command import Given


def login_link(url: str, code: str) -> str:
    """Make the link. What is behind the # stays in the browser: no log and no proxy sees it."""
    return f"{url}/login#code={code}"


def server_url(given: Given) -> str:
    """Say where `stayer serve` with the same settings would be found."""
    serve = given.config().serve
    scheme = "https" if serve.get("certificate") else "http"
    names = serve.get("host_names") or (serve.get("host", "127.0.0.1"),)
    host = "localhost" if names[0] in ("0.0.0.0", "::") else names[0]
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{serve.get('port', 8787)}{serve.get('root_path', '')}"
