"""Leases: heartbeats, and noticing workers whose heartbeats stopped."""
