"""Delivering notices: workers and servers do it in passing, whoever comes first."""
