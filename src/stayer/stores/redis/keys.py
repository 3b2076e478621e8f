"""The key map: every key and channel that Stayer uses in Redis, and what is there.

`<prefix>` is `stayer` unless the URL says otherwise. Keys of one queue share a hash tag, the part
in braces, so that they are neighbours on a cluster; in it `%`, `{` and `}` of a queue's name are
written `%25`, `%7B` and `%7D`. What may hold any character comes last in its key, so that no two
can be meant by one.

A task

    <prefix>:task:<id>             string: the record, then its history (see `record.py`)
    <prefix>:parameters:<id>       string: parameters that are bytes or long; else in the record
    <prefix>:result:<id>           string: the same for a result
    <prefix>:history:<id>          list: older history, moved out of the record when it grows, up to
                                   its first 100 events
    <prefix>:history_tail:<id>     list: what came after them, the last 900 or so
    <prefix>:checkpoint:<id>       hash: attempt, at, data of the newest checkpoint
    <prefix>:log:<attempt>:<id>    sorted set: pieces `start:at:data` of a log, by start
    <prefix>:usage:<attempt>:<id>  hash: slot → `at JSON`, the series of what an attempt has used;
                                   in slot -1 what it has reported of itself
    <prefix>:purged:<id>           string: what is left of a purged task; expires after 30 days

What ties tasks together

    <prefix>:upstreams:<id>        list: what the task was to run after; members a<id>, or b<id>
                                   for one that need only have ended
    <prefix>:waits:<id>            hash: what it waits for now, id → a or b
    <prefix>:waiters:<id>          set: who waits for the task now
    <prefix>:dependents:<id>       set: who was to run after it
    <prefix>:outbox                hash: tasks that have ended and whose waiters have not all heard
                                   of it, id → state
    <prefix>:flows                 sorted set of score 0: created in µs (16 digits), id of each flow
    <prefix>:flow:<flow>           string: name, owner, created and parts of a flow as JSON
    <prefix>:parts:<flow>          hash: `state part` → how many of its tasks
    <prefix>:members:<flow>        sorted set of score 0: its tasks, members as in a list of a state

A queue

    <prefix>:queues                set: the names of all queues
    <prefix>:{<queue>}:queue       hash: paused, limit, key_limit, fair, notify (hooks, a line
                                   each), rate and rate_per (so many
                                   starts in so many seconds), tokens and tokens_at (how many could
                                   have begun, and when), lined (1 if its tasks wait in lines),
                                   keep_… (for how many seconds), wakes (the number of the last
                                   wake-up), logs_gone and results_gone (those of tasks that ended
                                   up to then are forgotten)
    <prefix>:{<queue>}:key_limits  hash: limits of single keys
    <prefix>:{<queue>}:running     hash: how many tasks of each key run
    <prefix>:{<queue>}:lanes       set: the lanes that may have something to take
    <prefix>:{<queue>}:lane:<lane> sorted set: what can be taken by one kind of handler; score
                                   -priority, member number (12 digits) and id. Where there are
                                   lines, only the first of each line whose key has room, and a
                                   lane is one of a lane and a share: `length lane share`
    <prefix>:{<queue>}:ranked      sorted set: what is pending with another priority than 0, as in a
                                   lane: for queues with more lanes than can be looked into
    <prefix>:{<queue>}:lines       set: the lines that have somebody in them
    <prefix>:{<queue>}:line:<line> sorted set: what can be taken of one lane, share and key, as in a
                                   lane; the name is `length length lane share key`
    <prefix>:{<queue>}:lines:<key> set: the lines of one key
    <prefix>:{<queue>}:heads       hash: line → who stands for it in its lane
    <prefix>:{<queue>}:runs        hash, if it is fair: running task → `since share`
    <prefix>:{<queue>}:shares      hash: share → `seconds runs at`, what its tasks have used
    <prefix>:{<queue>}:unique:<unique>  sorted set: who holds a unique word, by until when
    <prefix>:{<queue>}:state:<state>  sorted set of score 0, for lists: member created in µs (16
                                   digits), number (12 digits), id; a pending task that is held is
                                   in `held`. Of reserved and started ones, which are few and soon
                                   gone, a set. Its size is how many tasks are in that state.
    <prefix>:{<queue>}:ids         sorted set of score 0: all ids, to find them by their beginning
    <prefix>:{<queue>}:finished:<state>  sorted set: ids of finished tasks, by when their
                                   end became known (updated)
    <prefix>:{<queue>}:spared      set: ids of tasks whose results are older than they are kept, but
                                   were needed by others when somebody last looked
    <prefix>:{<queue>}:faults      set: the fingerprints of what failed
    <prefix>:{<queue>}:failed:<fingerprint>  sorted set: ids of the failed tasks of one fault, by
                                   finished_at
    <prefix>:due                   sorted set: ids of scheduled tasks, by eta
    <prefix>:expiring              sorted set: ids of what has not been started, by start_before
    <prefix>:rated                 set: the queues that have a rate
    <prefix>:near_nodes            set: the nodes that may have tasks for themselves
    <prefix>:near:<node>           sorted set: ids of the pending tasks that a node has for itself,
                                   by until when

Notices

    <prefix>:notice:<notice>       hash: what is to be told to somebody outside (see
                                   `lib/notice.lua`)
    <prefix>:notices:<state>       sorted set of score 0: pending, delivered or failed ones; members
                                   when it happened in µs (16 digits), id
    <prefix>:notices_of:<id>       sorted set of score 0: those of a task, members the same
    <prefix>:notices_due:<hook>    sorted set: pending ones of a hook by when they are to be tried;
                                   without a name, those that go to a URL

Files

    <prefix>:file:<sha256>         string: a file that came along with tasks
    <prefix>:files                 sorted set: the sha256 of each, by when somebody last put it

Schedules

    <prefix>:schedules             sorted set: the names of all, by when they are to be looked at
                                   (inf: never)
    <prefix>:schedule:<name>       hash: a schedule
    <prefix>:newest                set: the ids of the newest task of each, which is not forgotten

Workers

    <prefix>:workers               set: all that are not forgotten
    <prefix>:dead                  set: those that are declared lost and still hold something
    <prefix>:worker:<worker>       hash: what its last beat said, and its lease
    <prefix>:held:<worker>         set: ids of the tasks that it holds
    <prefix>:ordered:<worker>      set: those of them that have orders
    <prefix>:late, <prefix>:early  sorted sets: by the moments after and before which a worker is a
                                   suspect

What happened

    <prefix>:last                  string: the number of the newest event; tasks take theirs from it
                                   (of a store that is sealed: `sealed number why`)
    <prefix>:events                stream: events in batches, each under the number of its last one;
                                   the newest 100,000 or so
    <prefix>:figures:<step>:<at>   hash: queue → what it did in a stretch of so many seconds, the
                                   empty name for all together; expires (see `queue_stats.lua`)
    <prefix>:meta                  hash: schema, the version of this map; sampled, up to when the
                                   figures are counted; looked_through, up to where lists have
                                   been looked through for strays; identity, what tells this store
                                   from others; seal, the mark of a move (JSON); lost, workers
                                   declared lost (JSON); totals, what was counted for
                                   metrics; access and access uses, who may come in over HTTP,
                                   hashed, and when they last did (JSON)

    <prefix>:once:<key>            string: what servers share, such as whose a worker is; expires
    <prefix>:strays                set: what stands somewhere without its record, until the
                                   script missing_records has seen to it (MessagePack: id, queue,
                                   ticket or place)
    <prefix>:missing               list: JSON of tasks whose records were gone; the newest 1,000
    <prefix>:damaged               hash: key → why it could not be read; what it held is below the
                                   same name, `<prefix>:damaged:…`
    <prefix>:rights                there for a moment, when the rights of a user are tried; also a
                                   channel

From outside

    <prefix>:incoming              list: JSON of tasks to be submitted, pushed on the left
    <prefix>:refused               list: what came in and was no use, with why; the newest 1,000

Channels

    <prefix>:{<queue>}:wake        the number of an event after which there may be something to take
                                   and whose it is: databases of a server share its channels
    <prefix>:orders:<worker>       a number, when there is something for this worker
    <prefix>:events                the events of one change as a JSON array, for anyone to hear
    <prefix>:incoming              whoever pushed something may publish here, to be heard at once

On a cluster all of this is there once a queue, below the prefix `<prefix>:{<queue>}`; what is known
of workers also below `<prefix>:{%lobby}`, the registry shard. The channels are sharded ones there
(SPUBLISH). And

    <prefix>:listeners:<id>        hash of a task that others in other queues run after: @queue → 1;
                                   heard: how often one came to listen; free: up to which of these
                                   nobody is known to need it, until: for how long
    <prefix>:afar                  hash: ended tasks that other shards have to hear of, id → a mark
    <prefix>:looks                 string: the last mark. In the outbox `?` and a mark is a note
                                   that somebody has to look at a task of another shard
    <prefix>:asked                 set: what is to be forgotten, if no other shard needs it
    <prefix>:promised              hash: unique word → nonce and id of the claim that will hold it

are there in that way too. Beside these, once:

    <prefix>:{%lobby}:shards       set: the names of all queues that ever were
    <prefix>:{%copy<copy>}:shards  set: the same once more, copies 0 to 3
    <prefix>:{%copy<copy>}:identity  string: that of `meta` in the registry shard once more
    <prefix>:claim:<id>            hash: queue, nonce, and until the task is there `task`, all of
                                   it, and `plan`, if it comes with others
    <prefix>:plans                 set: nonce and name of the plans that are not over
    <prefix>:plan:<plan>           hash: nonce, status (open, go, undone), about, signs (of life)
    {<prefix>:incoming}:taken      sorted set: items that have left the list `incoming` and got an
                                   id, oldest first: id, item
    {<prefix>:incoming}:refused    list: what `refused` is elsewhere
    <prefix>:{%lobby}:homes:<worker>  set: the queues that the worker is known in
    <prefix>:{%lobby}:burying      set: the workers that are being declared lost
    <prefix>:{news}:relayed        hash: queue → the number up to which its events have been copied
    <prefix>:{news}:stream         stream: the events of all queues, under new numbers
"""

from __future__ import annotations

import re

_PLACE = re.compile(r"<(\w+)>")
REGISTRY_TAG = "%lobby"
"""What stands between the braces in keys of the registry shard: no queue is written so there. An
older word of ours for that shard; it stays, for all that workers of a cluster hold is below it."""
DECLARING_LOST = "burying"
"""The name in Redis of the workers that are being declared lost. It is an older word of ours, and
stays: workers of several versions share a store."""

KEYS = {
    "task": "<prefix>:task:<id>",
    "parameters": "<prefix>:parameters:<id>",
    "result": "<prefix>:result:<id>",
    "history": "<prefix>:history:<id>",
    "history_tail": "<prefix>:history_tail:<id>",
    "checkpoint": "<prefix>:checkpoint:<id>",
    "log": "<prefix>:log:<attempt>:<id>",
    "usage": "<prefix>:usage:<attempt>:<id>",
    "purged": "<prefix>:purged:<id>",
    "upstreams": "<prefix>:upstreams:<id>",
    "waits": "<prefix>:waits:<id>",
    "waiters": "<prefix>:waiters:<id>",
    "dependents": "<prefix>:dependents:<id>",
    "outbox": "<prefix>:outbox",
    "listeners": "<prefix>:listeners:<id>",
    "afar": "<prefix>:afar",
    "looks": "<prefix>:looks",
    "asked": "<prefix>:asked",
    "promised": "<prefix>:promised",
    "flows": "<prefix>:flows",
    "flow": "<prefix>:flow:<flow>",
    "parts": "<prefix>:parts:<flow>",
    "members": "<prefix>:members:<flow>",
    "notice": "<prefix>:notice:<notice>",
    "notices": "<prefix>:notices:<state>",
    "notices_of": "<prefix>:notices_of:<id>",
    "notices_due": "<prefix>:notices_due:<hook>",
    "queues": "<prefix>:queues",
    "queue": "<prefix>:{<queue>}:queue",
    "lanes": "<prefix>:{<queue>}:lanes",
    "ranked": "<prefix>:{<queue>}:ranked",
    "lane": "<prefix>:{<queue>}:lane:<lane>",
    "key_limits": "<prefix>:{<queue>}:key_limits",
    "running": "<prefix>:{<queue>}:running",
    "lines": "<prefix>:{<queue>}:lines",
    "line": "<prefix>:{<queue>}:line:<line>",
    "lines_of": "<prefix>:{<queue>}:lines:<key>",
    "heads": "<prefix>:{<queue>}:heads",
    "runs": "<prefix>:{<queue>}:runs",
    "shares": "<prefix>:{<queue>}:shares",
    "unique": "<prefix>:{<queue>}:unique:<unique>",
    "rated": "<prefix>:rated",
    "near_nodes": "<prefix>:near_nodes",
    "near": "<prefix>:near:<node>",
    "state": "<prefix>:{<queue>}:state:<state>",
    "ids": "<prefix>:{<queue>}:ids",
    "wake": "<prefix>:{<queue>}:wake",
    "finished": "<prefix>:{<queue>}:finished:<state>",
    "spared": "<prefix>:{<queue>}:spared",
    "faults": "<prefix>:{<queue>}:faults",
    "failed": "<prefix>:{<queue>}:failed:<fingerprint>",
    "due": "<prefix>:due",
    "expiring": "<prefix>:expiring",
    "file": "<prefix>:file:<sha256>",
    "files": "<prefix>:files",
    "schedules": "<prefix>:schedules",
    "schedule": "<prefix>:schedule:<name>",
    "newest": "<prefix>:newest",
    "workers": "<prefix>:workers",
    "dead": "<prefix>:dead",
    "worker": "<prefix>:worker:<worker>",
    "held": "<prefix>:held:<worker>",
    "ordered": "<prefix>:ordered:<worker>",
    "orders": "<prefix>:orders:<worker>",
    "late": "<prefix>:late",
    "early": "<prefix>:early",
    "last": "<prefix>:last",
    "events": "<prefix>:events",
    "figures": "<prefix>:figures:<step>:<at>",
    "meta": "<prefix>:meta",
    "once": "<prefix>:once:<key>",
    "strays": "<prefix>:strays",
    "missing": "<prefix>:missing",
    "rights": "<prefix>:rights",
    "damaged": "<prefix>:damaged",
    "incoming": "<prefix>:incoming",
    "refused": "<prefix>:refused",
    "shards": f"<prefix>:{{{REGISTRY_TAG}}}:shards",
    "shards_copy": "<prefix>:{%copy<copy>}:shards",
    "identity_copy": "<prefix>:{%copy<copy>}:identity",
    "claim": "<prefix>:claim:<id>",
    "plans": "<prefix>:plans",
    "plan": "<prefix>:plan:<plan>",
    "taken": "{<prefix>:incoming}:taken",
    "unfit": "{<prefix>:incoming}:refused",
    "homes": f"<prefix>:{{{REGISTRY_TAG}}}:homes:<worker>",
    "declaring_lost": f"<prefix>:{{{REGISTRY_TAG}}}:{DECLARING_LOST}",
    "relayed": "<prefix>:{news}:relayed",
    "news": "<prefix>:{news}:stream",
}


def key(name: str, prefix: str, /, **parts: str) -> str:
    """The key of this name, for the few places that are not scripts."""
    if "queue" in parts:
        parts["queue"] = tag(parts["queue"])
    return _PLACE.sub(lambda place: {"prefix": prefix, **parts}[place[1]], KEYS[name])


def tag(queue: str) -> str:
    """Return a queue's name as it stands between braces."""
    return queue.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def escape_pattern(text: bytes) -> bytes:
    """A pattern that stands for this text alone."""
    return b"".join(b"\\" + bytes([each]) if each in b"*?[]\\" else bytes([each]) for each in text)


def lua_key(name: str, arguments: str) -> str:
    """Write in Lua how the key of this name is put together from what is passed: names, fields and
    texts, so that they can stand where they are used. A function for it would be made anew at each
    run of a script.
    """
    passed = [each for each in arguments.split(", ") if each]
    texts, places = _PLACE.split(KEYS[name])[::2], _PLACE.findall(KEYS[name])
    if len(passed) != len(places) - 1 or not all(map(_SIMPLE.fullmatch, passed)):
        raise TypeError(f"@{name}({arguments}) needs {places[1:]}: names, fields or texts")
    values = iter(passed)
    pieces = [f"'{texts[0]}'"]
    for place, text in zip(places, texts[1:], strict=True):
        value = "PREFIX" if place == "prefix" else next(values)
        pieces += (f"tag({value})" if place == "queue" else value, f"'{text}'")
    return "(" + " .. ".join(piece for piece in pieces if piece != "''") + ")"


_SIMPLE = re.compile(r"[A-Za-z_][\w.]*(?:\[[^\[\]]*\])*|'[^']*'")
