"""The table of all that can be asked. Routing, roles, validation, OpenAPI and docs follow it."""

from __future__ import annotations

from stayer.http import (
    compare,
    failures,
    files,
    flows,
    log,
    notices,
    queues,
    schedules,
    stats,
    streams,
    submit,
    sweeps,
    system,
    tasks,
    work,
    work_bodies,
    workers,
)
from stayer.http.filters import ListQuery, TaskFilter
from stayer.http.route import EVENT_STREAM, JSON_MEDIA, SESSION, Route
from stayer.http.tasks import CancelBody

_TASK = "/v1/tasks/{id}"
_QUEUE = "/v1/queues/{name}"
_SCHEDULE = "/v1/schedules/{schedule}"
_FLOW = "/v1/flows/{id}"
_FILE = "/v1/files/{sha256}"
_TEXT, _HTML = "text/plain", "text/html"
_BYTES = "application/octet-stream"

_SUBMITTING = (
    Route(
        method="POST", path="/v1/tasks", role="submit", wait=submit.submit,
        summary="Submit one task, or many. A fresh id is accepted (201), one that is there is not "
        "accepted again (200), nor is that of a deleted task (409; in a list, `purged` says so).",
        body=bytes, body_schema={"$ref": "#/components/schemas/Submissions"}, body_needed=True,
        answer="Accepted", status=(200, 201), problems=(409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/clone", role="submit", run=tasks.clone,
        summary="Submit a task like this one, with changes: fields as in a submission, null for "
        "the default. Results, times, attempts and checkpoints are not copied.",
        body=bytes, body_schema={"$ref": "#/components/schemas/Edits"},
        answer="AcceptedTask", status=(200, 201), problems=(404, 409, 413, 415),
    ),
    Route(
        method="PUT", path=_FILE, role="submit", run=files.put,
        summary="Send a file for tasks that are about to be submitted, by the sha256 of its bytes. "
        "Without a body: keep the one that is there for another day (404 if there is none).",
        body=bytes, body_media=_BYTES, body_schema={"type": "string", "format": "binary"},
        status=(204,), problems=(404, 413),
    ),
    Route(
        method="GET", path=_FILE, role="read", run=files.get,
        summary="A file that was sent along with tasks.", media=(_BYTES,), problems=(404,),
    ),
)  # fmt: skip

_LOOKING = (
    Route(
        method="GET", path="/v1/tasks", role="read", run=tasks.find,
        summary="List tasks, newest first, page by page.", query=ListQuery, answer="FoundTasks",
    ),
    Route(
        method="GET", path="/v1/failures", role="read", run=failures.find,
        summary="What failed, by fault, the most frequent first: `fingerprint` is the same for all "
        "that failed in the same way.",
        query=failures.FailuresQuery, answer="Failures",
    ),
    Route(
        method="GET", path=_TASK, role="read", run=tasks.show,
        summary="A task with its attempts and events. Of a generated id the beginning is enough, "
        "except with a token for some queues only.", answer="TaskWithHistory", problems=(404,),
    ),
    Route(
        method="GET", path="/v1/compare", role="read", run=compare.compare,
        summary="Tasks side by side: parameters, metrics, steps, durations, results.",
        query=compare.CompareTasks, answer="Comparison", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/attempts", role="read", run=tasks.attempts,
        summary="Every try at a task.", answer="Attempts", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/events", role="read", run=tasks.events,
        summary="All that happened to a task.", answer="Events", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/explain", role="read", run=tasks.explain,
        summary="Why a task is not running, or what it does, and when it will start and end.",
        answer="Explanation", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/usage", role="read", run=tasks.usage,
        summary="What an attempt has used over time: processor, memory, disk.",
        query=tasks.WhichAttempt, answer="UsageSeries", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/statistics", role="read", run=tasks.statistics,
        summary="What an attempt has reported of itself: metrics over time, and steps. Default: "
        "the last attempt that reported something.",
        query=tasks.WhichAttempt, answer="Statistics", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/log", role="read", wait=log.log,
        summary="What a task printed, as text; with `follow`, a stream of messages `log` "
        "(`attempt`, `start`, `text`) and at last `end` (the record).",
        query=log.LogQuery, media=(_TEXT, EVENT_STREAM), problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/log/pieces", role="read", run=log.pieces,
        summary="The same as bytes with their offsets, for programs.",
        query=log.PiecesQuery, answer="LogPieces", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_TASK}/result", role="read", wait=streams.result,
        summary="What a task returned: a JSON value, or bytes. 409 if there is nothing (yet).",
        query=streams.ResultQuery, answer="Any", media=(JSON_MEDIA, _BYTES), problems=(404, 409),
    ),
    Route(
        method="GET", path=f"{_TASK}/checkpoint", role="read", run=tasks.checkpoint,
        summary="What a task saved last, for its next attempt.",
        query=tasks.CheckpointQuery, answer="Checkpoint", problems=(404, 409),
    ),
)  # fmt: skip

_STEERING = (
    Route(
        method="PATCH", path=_TASK, role="operate", run=tasks.set_task,
        summary="Change the priority, the limits or the hooks of a task that has not ended.",
        body=tasks.SetBody, body_needed=True, answer="Task", problems=(404, 409, 415),
    ),
    Route(
        method="DELETE", path=_TASK, role="operate", run=tasks.delete,
        summary="Forget a finished task.", status=(204,), problems=(404, 409),
    ),
    Route(
        method="POST", path=f"{_TASK}/cancel", role="operate", run=tasks.cancel,
        summary="Cancel a task: at once if it waits, else by asking its worker.",
        body=tasks.CancelBody, answer="Task", problems=(404, 409, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/complete", role="operate", run=tasks.complete,
        summary="Declare a task that does not run complete by hand, with a result.",
        body=tasks.CompleteBody, answer="Task", problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/fail", role="operate", run=tasks.fail,
        summary="Declare a task that does not run failed by hand, with an error.",
        body=tasks.FailBody, answer="Task", problems=(404, 409, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/retry", role="operate", run=tasks.retry,
        summary="Run a finished task again, from its last checkpoint or from the start, perhaps "
        "with changes.",
        body=tasks.RetryBody, answer="Task", problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/edit", role="operate", run=tasks.edit,
        summary="Change what a task that waits is to do: fields as in a submission, null for the "
        "default.",
        body=bytes, body_schema={"$ref": "#/components/schemas/Edits"}, body_needed=True,
        answer="Task", problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_TASK}/signal", role="operate", run=tasks.signal,
        summary="Send a signal (USR1, TERM, 15) to the main process of a running task.",
        body=tasks.SignalBody, body_needed=True, answer="Task", problems=(404, 409, 415),
    ),
    *(
        Route(
            method="POST", path=f"{_TASK}/{verb}", role="operate", run=run, summary=summary,
            answer="Task", problems=(404, 409),
        )
        for verb, run, summary in (
            ("hold", tasks.hold, "Keep a task from being taken until it is released."),
            ("release", tasks.release, "Let a held task be taken again."),
            ("pause", tasks.pause, "Stop a running task where it is."),
            ("resume", tasks.resume, "Let a paused task run on."),
            ("stack", tasks.stack, "Let a running Python task write its stacks to its log."),
        )
    ),
    Route(
        method="POST", path="/v1/tasks/cancel", role="operate", run=tasks.cancel_many,
        summary="Cancel the unfinished tasks that match, a page at a time.",
        query=TaskFilter, body=tasks.CancelBody, answer="TaskPage", problems=(415,),
    ),
    Route(
        method="POST", path="/v1/tasks/retry", role="operate", run=tasks.retry_many,
        summary="Run the failed and cancelled tasks that match again, a page at a time.",
        query=TaskFilter, body=tasks.RetryBody, answer="TaskPage", problems=(415,),
    ),
    *(
        Route(
            method="POST", path=f"/v1/tasks/{verb}", role="operate", run=run,
            summary=f"{summary}, a page at a time.", query=TaskFilter, answer="TaskPage",
        )
        for verb, run, summary in (
            ("hold", tasks.hold_many, "Hold the queued tasks that match"),
            ("release", tasks.release_many, "Release the held tasks that match"),
            ("pause", tasks.pause_many, "Pause the running tasks that match"),
            ("resume", tasks.resume_many, "Resume the running tasks that match"),
            ("delete", tasks.delete_many, "Forget the finished tasks that match"),
        )
    ),
    Route(
        method="POST", path="/v1/tasks/signal", role="operate", run=tasks.signal_many,
        summary="Send a signal to the running tasks that match, a page at a time.",
        query=TaskFilter, body=tasks.SignalBody, body_needed=True, answer="TaskPage",
        problems=(415,),
    ),
    Route(
        method="PATCH", path="/v1/tasks", role="operate", run=tasks.set_many,
        summary="Change the priority, the limits or the hooks of the unfinished tasks that match, "
        "a page at a time.",
        query=TaskFilter, body=tasks.SetBody, body_needed=True, answer="TaskPage",
        problems=(415,),
    ),
    Route(
        method="POST", path="/v1/tasks/purge", role="operate", run=tasks.purge,
        summary="Forget finished tasks that ended long ago, some at a time: repeat until none.",
        body=tasks.PurgeBody, body_needed=True, answer="Purged", problems=(415,),
    ),
)  # fmt: skip

_FLOWS = (
    Route(
        method="POST", path="/v1/flows", role="submit", run=flows.submit,
        summary="Submit a flow, all of it or nothing: what a flow.json says. A fresh id is "
        "accepted (201), one that is there is not accepted again (200).",
        body=bytes, body_schema={"$ref": "#/components/schemas/FlowSubmission"}, body_needed=True,
        answer="AcceptedFlow", status=(200, 201), problems=(409, 413, 415),
    ),
    Route(
        method="GET", path="/v1/flows", role="read", run=flows.find,
        summary="List flows, newest first, page by page.", query=flows.FlowsQuery,
        answer="FlowPage",
    ),
    Route(
        method="GET", path=_FLOW, role="read", run=flows.show,
        summary="A flow: its parts, what they run after, how many tasks are in each state.",
        answer="Flow", problems=(404,),
    ),
    Route(
        method="POST", path=f"{_FLOW}/cancel", role="operate", run=flows.cancel,
        summary="Cancel all tasks of a flow that have not ended.",
        body=CancelBody, answer="FlowTold", problems=(404, 415),
    ),
    Route(
        method="POST", path=f"{_FLOW}/retry", role="operate", run=flows.retry,
        summary="Run again what failed or was cancelled; what is complete stays.",
        body=tasks.RetryBody, answer="FlowTold", problems=(404, 409, 415),
    ),
    Route(
        method="POST", path="/v1/sweeps", role="submit", run=sweeps.submit,
        summary="Submit a task for each combination of parameters, all or none: a flow with one "
        "map, `sweep`.",
        body=sweeps.SweepBody, body_needed=True,
        answer="AcceptedFlow", status=(200, 201), problems=(409, 413, 415),
    ),
    Route(
        method="GET", path="/v1/sweeps/{id}", role="read", run=sweeps.show,
        summary="The runs of a sweep, to be compared: parameters, state, result, duration.",
        query=sweeps.CompareQuery, answer="Sweep", problems=(404, 409),
    ),
    Route(
        method="GET", path=f"{_TASK}/upstreams", role="read", run=flows.upstreams,
        summary="What a task runs after, and what it waits for now.",
        query=flows.UpstreamsQuery, answer="Upstreams", problems=(404,),
    ),
)  # fmt: skip

_QUEUES = (
    Route(
        method="GET", path="/v1/queues", role="read", run=queues.find,
        summary="Queues with their counts.", query=queues.QueueNames, answer="Queues",
    ),
    Route(
        method="GET", path=_QUEUE, role="read", run=queues.show,
        summary="One queue.", answer="Queue", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_QUEUE}/peek", role="read", run=queues.peek,
        summary="What would be taken next, best first.", query=queues.PeekQuery, answer="Tasks",
    ),
    Route(
        method="PATCH", path=_QUEUE, role="operate", run=queues.set_queue,
        summary="Change settings of a queue; it is made if it is not there.",
        body=queues.QueueBody, body_needed=True, answer="Queue", problems=(415,),
    ),
    Route(
        method="POST", path=f"{_QUEUE}/pause", role="operate", run=queues.pause,
        summary="Let no more tasks of a queue be taken; what runs, runs on.",
        answer="Queue", problems=(404,),
    ),
    Route(
        method="POST", path=f"{_QUEUE}/resume", role="operate", run=queues.resume,
        summary="Let tasks of a queue be taken again.", answer="Queue", problems=(404,),
    ),
    Route(
        method="DELETE", path=_QUEUE, role="operate", run=queues.drop,
        summary="Delete a queue with its tasks. 202: some are left, repeat it.",
        query=queues.DropQuery, answer="Dropped", status=(200, 202), problems=(404, 409),
    ),
)  # fmt: skip

_SCHEDULES = (
    Route(
        method="GET", path="/v1/schedules", role="read", run=schedules.find,
        summary="What the clock submits, and the state of each one's last task.",
        query=schedules.ScheduleNames, answer="Schedules",
    ),
    Route(
        method="POST", path="/v1/schedules", role="operate", run=schedules.make,
        summary="Make a schedule. The same once more is no error (200), another one of that name "
        "is (409), unless it is to be replaced.",
        query=schedules.MakeQuery, body=bytes,
        body_schema={"$ref": "#/components/schemas/ScheduleToMake"}, body_needed=True,
        answer="Schedule", status=(200, 201), problems=(409, 413, 415),
    ),
    Route(
        method="GET", path=_SCHEDULE, role="read", run=schedules.show,
        summary="One schedule, and its next ticks.", answer="ScheduleWithTicks", problems=(404,),
    ),
    Route(
        method="PATCH", path=_SCHEDULE, role="operate", run=schedules.change,
        summary="Change a schedule.", body=schedules.ScheduleChange, body_needed=True,
        answer="Schedule", problems=(404, 413, 415),
    ),
    Route(
        method="DELETE", path=_SCHEDULE, role="operate", run=schedules.drop,
        summary="Remove a schedule; its tasks stay.", status=(204,), problems=(404,),
    ),
    *(
        Route(
            method="POST", path=f"{_SCHEDULE}/{verb}", role="operate", run=run, summary=summary,
            answer="Schedule", problems=(404,),
        )
        for verb, run, summary in (
            ("pause", schedules.pause, "Let a schedule tick no more until it is resumed."),
            ("resume", schedules.resume, "Let a paused schedule tick again, from now on."),
        )
    ),
    Route(
        method="POST", path=f"{_SCHEDULE}/run", role="operate", run=schedules.run,
        summary="Submit a schedule's task now, once, apart from its ticks.",
        answer="Task", status=(201,), problems=(404,),
    ),
)  # fmt: skip

_WORKERS = (
    Route(
        method="GET", path="/v1/workers", role="read", run=workers.find,
        summary="Who takes tasks, and which workers were declared lost in the last day (`down`).",
        query=workers.WorkersQuery, answer="Workers",
    ),
    Route(
        method="POST", path="/v1/workers/{id}/drain", role="operate", run=workers.drain,
        summary="Let a worker finish what it runs and take no more; it ends then.",
        answer="Worker", problems=(404,),
    ),
    Route(
        method="PATCH", path="/v1/workers/{id}", role="operate", run=workers.set_worker,
        summary="Change the queues and slots of a worker, which goes on with what it runs: "
        "`queues` are all of them, or `add_queues` and `remove_queues`; `reset`: as its flags say.",
        body=workers.SetBody, body_needed=True, answer="Worker", problems=(404, 409, 415),
    ),
    Route(
        method="POST", path="/v1/workers/{id}/stop", role="operate", run=workers.stop,
        summary="Tell a worker to stop what it runs within `grace` seconds (30), hand it back, and "
        "leave. If it does not, its heartbeats are refused, and its lease ends. It has left "
        "when it is no longer listed.",
        body=workers.StopBody, answer="Worker", problems=(404, 415),
    ),
    Route(
        method="DELETE", path="/v1/workers/{id}", role="operate", run=workers.drop,
        summary="Give up a stale worker, and return what it held to the queue.",
        answer="DroppedWorker", problems=(404, 409),
    ),
    Route(
        method="POST", path="/v1/workers/attend", role="read", run=workers.attend,
        summary="Somebody watches what these workers run: let them tell news every second.",
        body=workers.AttendBody, body_needed=True, status=(204,), problems=(415,),
    ),
)  # fmt: skip

_WORK = "/v1/work/{worker}"
_HELD = f"{_WORK}/tasks/{{id}}"
_WORKING = (
    Route(
        method="GET", path="/v1/work", role="work", run=work.about,
        summary="What a token of the role `work` is for, and the workers that it introduced.",
        answer="Work",
    ),
    Route(
        method="GET", path=_WORK, role="work", run=work.show,
        summary="A worker, and the number of its last beat.", answer="Worker", problems=(404,),
    ),
    Route(
        method="POST", path=f"{_WORK}/beat", role="work", run=work.beat,
        summary="Register a worker, renew its lease, hear orders.",
        body=work_bodies.BeatBody, body_schema={"$ref": "#/components/schemas/BeatToSend"},
        body_needed=True, answer="Beat", problems=(409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_WORK}/take", role="work", wait=work.take,
        summary="Wait for tasks and get them. The same key returns the same tasks.",
        body=work_bodies.TakeBody, body_schema={"$ref": "#/components/schemas/TakeToSend"},
        body_needed=True, answer="Tasks", problems=(404, 409, 413, 415),
    ),
    Route(
        method="GET", path=f"{_WORK}/wait", role="work", wait=work.wait,
        summary="Wait until there may be an order or a task.", query=work_bodies.WaitQuery,
        answer="WorkWait", problems=(404,),
    ),
    Route(
        method="POST", path=f"{_WORK}/leave", role="work", run=work.leave,
        summary="Say goodbye: what is still held goes back to the queue.",
        body=work_bodies.LeaveBody, body_needed=True, status=(204,), problems=(404, 413, 415),
    ),
    Route(
        method="GET", path=f"{_WORK}/holdings", role="work", run=work.holdings,
        summary="What a worker holds.", answer="Tasks", problems=(404,),
    ),
    Route(
        method="GET", path=f"{_WORK}/tasks", role="work", run=work.tasks,
        summary="Tasks of the token's queues, and what runs before those that the worker holds.",
        query=work_bodies.TasksQuery, answer="Tasks", problems=(404,),
    ),
    Route(
        method="POST", path=f"{_WORK}/changes", role="work", run=work.changes,
        summary="What happened to several attempts, if all that the worker knows of them still "
        "holds: the task, or null where nothing was done. For `stayer worker`.",
        body=work_bodies.ChangesBody, body_schema={"type": "object", "required": ["changes"]},
        body_needed=True, answer="ChangedTasks", problems=(404, 409, 413, 415),
    ),
    *(
        Route(
            method="GET", path=f"{_HELD}/{what}", role="work", run=run, summary=summary,
            answer=answer, media=media, problems=(404,),
        )
        for what, run, summary, answer, media in (
            ("upstreams", work.upstreams, "What a task runs after.", "Ties", (JSON_MEDIA,)),
            ("inputs", work.inputs, "The results of what a task runs after.", "Any", (JSON_MEDIA,)),
            ("checkpoint", work.get_checkpoint, "What was saved last.", None, (_BYTES,)),
        )
    ),
    *(
        Route(
            method="POST", path=f"{_HELD}/{verb}", role="work", run=run, summary=summary,
            query=work_bodies.Fence, body=body, answer="Task", problems=(404, 409, 413, 415),
        )
        for verb, run, body, summary in (
            ("start", work.start, work_bodies.StartBody, "Let an attempt begin."),
            ("complete", work.complete, work_bodies.CompleteBody, "An attempt has ended well."),
            (
                "return", work.give_back, work_bodies.ReturnBody,
                "An attempt goes back to the queue.",
            ),
            ("cancelled", work.cancelled, work_bodies.Nothing, "An attempt was stopped on demand."),
        )
    ),
    Route(
        method="POST", path=f"{_HELD}/fail", role="work", run=work.fail,
        summary="An attempt has ended badly.", query=work_bodies.Fence, body=work_bodies.FailBody,
        body_schema={"$ref": "#/components/schemas/FailureToSend"}, body_needed=True,
        answer="Task", problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_HELD}/progress", role="work", run=work.progress,
        summary="How far an attempt is.", query=work_bodies.Fence, body=work_bodies.ProgressBody,
        body_needed=True, status=(204,), problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_HELD}/meta", role="work", run=work.set_meta,
        summary="Set fields of its own (`meta`) of a task that the worker holds; null takes one "
        "away, others stay.",
        query=work_bodies.Fence, body=work_bodies.MetaBody, body_needed=True, status=(204,),
        problems=(404, 409, 413, 415),
    ),
    Route(
        method="POST", path=f"{_HELD}/log", role="work", run=work.log,
        summary="What an attempt printed, from an offset on.", query=work_bodies.LogQuery,
        body=bytes, body_schema={}, body_media=_BYTES, status=(204,), problems=(404, 409, 413),
    ),
    Route(
        method="PUT", path=f"{_HELD}/checkpoint", role="work", run=work.checkpoint,
        summary="What the next attempt is to go on from.", query=work_bodies.Fence, body=bytes,
        body_schema={}, body_media=_BYTES, status=(204,), problems=(404, 409, 413),
    ),
)  # fmt: skip

_NOTICES = (
    Route(
        method="GET", path="/v1/notices", role="read", run=notices.find,
        summary="What was told, or is to be told, to hooks, newest first, page by page.",
        query=notices.NoticesQuery, answer="NoticePage",
    ),
    Route(
        method="GET", path=f"{_TASK}/notices", role="read", run=notices.of_task,
        summary="The same of one task.", query=notices.OfTask, answer="NoticePage",
        problems=(404,),
    ),
    Route(
        method="POST", path="/v1/notices/retry", role="operate", run=notices.retry,
        summary="Deliver notices that failed, or that wait for their next try, now.",
        body=notices.NoticesBody, body_needed=True, answer="NoticesTold", problems=(415,),
    ),
    Route(
        method="POST", path="/v1/notices/drop", role="operate", run=notices.drop,
        summary="Forget notices.",
        body=notices.NoticesBody, body_needed=True, answer="NoticesTold", problems=(415,),
    ),
)  # fmt: skip

_SYSTEM = (
    Route(
        method="GET", path="/v1/events", role="read", wait=streams.events,
        summary="What happens, as it happens (SSE, resumable by Last-Event-ID); with Accept: "
        "application/json, the next events. A message `store` says when the store does not answer, "
        "and when it does again.",
        query=streams.EventsQuery, answer="EventPage", media=(EVENT_STREAM, JSON_MEDIA),
    ),
    Route(
        method="GET", path="/v1/stats", role="read", run=stats.stats,
        summary="Sums over queues and workers, and rates of the last minutes; with `since`, what "
        "the queues did since then.",
        query=stats.StatsQuery, answer="Stats",
    ),
    Route(
        method="GET", path="/v1/clock", role="read", run=system.clock,
        summary="The store's clock, and the number of the newest event.", answer="Clock",
    ),
    Route(
        method="GET", path=SESSION, role="read", run=system.whoami,
        summary="Who asks, and with which role.", answer="Who",
    ),
    Route(
        method="POST", path=SESSION, role=None, run=system.login,
        summary="Swap the code of a login link, or a token, for a session: its cookie, and `page`, "
        "which has to come with every request, as the header X-Stayer-Request.",
        body=system.LoginBody, body_needed=True, answer="Opened", problems=(401, 413, 415, 429),
    ),
    Route(
        method="DELETE", path=SESSION, role="read", run=system.logout,
        summary="End the session.", status=(204,),
    ),
    Route(
        method="GET", path="/v1/sessions", role="operate", run=system.sessions,
        summary="Who has logged in with a browser: since when, last used, from where.",
        answer="Sessions",
    ),
    Route(
        method="DELETE", path="/v1/sessions/{session}", role="operate", run=system.end_session,
        summary="End a session, and the streams that it has open.", status=(204,), problems=(404,),
    ),
    Route(
        method="GET", path="/healthz", role=None, wait=system.healthz,
        summary="Whether the server lives.", answer="Health",
    ),
    Route(
        method="GET", path="/readyz", role=None, wait=system.readyz,
        summary="Whether its store answers.", answer="Health",
    ),
    Route(
        method="GET", path="/metrics", role="read", wait=system.show_metrics,
        summary="Figures for Prometheus.", media=(_TEXT,),
    ),
    Route(
        method="GET", path="/openapi.json", role=None, run=system.openapi,
        summary="This API, described (OpenAPI 3.1).", answer="Any",
    ),
    Route(
        method="GET", path="/docs", role=None, run=system.docs,
        summary="The same, for people.", media=(_HTML,),
    ),
)  # fmt: skip

_PAGES = (
    Route(
        method="GET", path="/", role=None, run=system.home,
        summary="The web page.", media=(_HTML,), status=(200, 307),
    ),
    Route(
        method="GET", path="/login", role=None, run=system.login_page,
        summary="Where a login link leads.", media=(_HTML,),
    ),
    Route(
        method="GET", path="/assets/{file}", role=None, run=system.own_asset,
        summary="Files of these pages.", media=("*/*",), problems=(404,),
    ),
    Route(
        method="GET", path="/ui/{folder}/{file}", role=None, run=system.deep_asset,
        summary="Files of the web page, in a folder.", media=("*/*",), problems=(404,),
    ),
    Route(
        method="GET", path="/ui/{folder}", role=None, run=system.asset,
        summary="Files of the web page.", media=("*/*",), problems=(404,),
    ),
)  # fmt: skip

GROUPS = {
    "Submitting tasks": _SUBMITTING,
    "Looking at tasks": _LOOKING,
    "Steering tasks": _STEERING,
    "Flows": _FLOWS,
    "Queues": _QUEUES,
    "Schedules": _SCHEDULES,
    "Notices": _NOTICES,
    "Workers": _WORKERS,
    "Working": _WORKING,
    "The whole": _SYSTEM,
    "Pages": _PAGES,
}
"""The routes by what they are about, in the order of the docs."""

ROUTES = tuple(route for group in GROUPS.values() for route in group)
