"""The floor on Redis: the least that a queue in Lua does, in batches, with no contract.

A hash a task, a sorted set of what is pending, a set of what runs; a worker's finish is checked
against the holder. No history, lists, lanes, limits, ids of the past, wake-ups or leases.
"""

from __future__ import annotations

from typing import Any

import redis
from msgspec.json import encode

from bench.floor import names

_SUBMIT = """
local now = redis.call('TIME')[1]
for number = 1, #ARGV, 2 do
  local id = ARGV[number]
  redis.call('HSET', 'floor:' .. id, 'id', id, 'queue', 'q', 'parameters', ARGV[number + 1],
             'owner', 'me', 'state', 'pending', 'attempt', 0, 'created', now)
  redis.call('ZADD', 'floor', now, id)
end
return #ARGV / 2
"""

_TURN = """
local now = redis.call('TIME')[1]
for number = 2, #ARGV, 2 do
  local key = 'floor:' .. ARGV[number]
  if redis.call('HGET', key, 'worker') == 'w' then
    redis.call('HSET', key, 'state', 'complete', 'result', ARGV[number + 1], 'finished_at', now)
    redis.call('SREM', 'floor running', ARGV[number])
  end
end
local taken = {}
local ids = redis.call('ZPOPMIN', 'floor', ARGV[1])
for number = 1, #ids, 2 do
  local key = 'floor:' .. ids[number]
  redis.call('HSET', key, 'state', 'reserved', 'worker', 'w', 'reserved_at', now)
  redis.call('HINCRBY', key, 'attempt', 1)
  redis.call('SADD', 'floor running', ids[number])
  taken[#taken + 1] = redis.call('HGETALL', key)
end
return taken
"""


class RedisFloor:
    """Submits, reserves and completes."""

    def __init__(self, socket: str) -> None:
        client = redis.Redis(unix_socket_path=socket)
        self._submit, self._turn = client.register_script(_SUBMIT), client.register_script(_TURN)

    def submit(self, count: int) -> int:
        """One script."""
        arguments = [part for id in names(count) for part in (id, encode({"x": 1}))]
        return int(self._submit(args=arguments))

    def drain(self, tasks: int, batch: int) -> int:
        """Take a batch and complete the one before, until so many are done."""
        held: list[dict[bytes, bytes]] = []
        done = 0
        while done < tasks:
            done += len(held)
            held = self._take(batch, held)
        self._take(0, held)
        return done + len(held)

    def _take(self, batch: int, held: list[dict[bytes, bytes]]) -> list[dict[bytes, bytes]]:
        done = [part for task in held for part in (task[b"id"], encode(1))]
        answer: Any = self._turn(args=[batch, *done])
        return [dict(zip(cells[::2], cells[1::2], strict=True)) for cells in answer]
