"""Connections to Redis: URLs, TLS, Sentinel, and a server that many threads use."""
