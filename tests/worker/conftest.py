"""Fixtures of the worker's tests."""

from tests.faults.conftest import fleet

__all__ = ("fleet",)
