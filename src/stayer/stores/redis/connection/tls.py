"""Connections with TLS: their files are looked at before a server is, and a handshake may take as
long as to reach it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

from redis.connection import SSLConnection

_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_REQUIREMENTS = ("required", "optional", "none")


class QuickSSLConnection(SSLConnection):  # type: ignore[misc]
    """One whose handshake is a part of reaching the server: a port that does not speak TLS would
    else be waited for as long as for an answer.
    """

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        sock.settimeout(self.socket_connect_timeout)
        wrapped = super()._wrap_socket_with_ssl(sock)
        wrapped.settimeout(self.socket_timeout)
        return wrapped


def what_is_wrong(given: Mapping[str, Any]) -> str | None:
    """With the files that the options of a URL name; None if they can be used."""
    if given.get("ssl_cert_reqs", "required") not in _REQUIREMENTS:
        return f"ssl_cert_reqs is one of {', '.join(_REQUIREMENTS)}"
    for name in _FILES:
        path = given.get(name)
        if path is not None and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            return f"{name}: there is no file {path} that can be read here"
    folder = given.get("ssl_ca_path")
    if folder is not None and not os.path.isdir(folder):
        return f"ssl_ca_path: there is no folder {folder}"
    authorities, certificate, key = (given.get(name) for name in _FILES)
    if key is not None and certificate is None:
        return "ssl_keyfile needs ssl_certfile: the certificate that the key is for"
    context = ssl.create_default_context()
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
    except ssl.SSLError as error:
        return f"ssl_ca_certs: {authorities} has no certificates in PEM format ({_message(error)})"
    try:
        if certificate is not None:
            password = given.get("ssl_password") or ""  # or it would ask at the terminal
            context.load_cert_chain(certificate, key, password=password)
    except (ssl.SSLError, ValueError) as error:
        return (
            f"ssl_certfile, ssl_keyfile: {certificate} and {key or 'the key in it'} are no "
            f"certificate and its key in PEM format, or ssl_password is wrong ({_message(error)})"
        )
    return None


def _message(error: Exception) -> str:
    return str(error).partition(" (_ssl.c")[0]
