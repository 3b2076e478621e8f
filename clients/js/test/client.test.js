// Against a real server with a real worker: STAYER_URL, STAYER_TOKEN (role operate),
// STAYER_QUEUE_TOKEN (role submit, for the queue "films" only).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, StayerError, TaskCancelled, TaskFailed, Unreachable, WaitTimeout } from "../src/index.js";

const client = new Client();
const sh = (script, more = {}) => ({ command: ["sh", "-c", script], ...more });

test("a task is submitted, and its result waited for", async () => {
  const task = await client.submit(sh(`echo '{"frames": 3}' > $STAYER_RESULT`));
  assert.equal(task.fresh, true);
  assert.match(task.id, /^[a-z2-7]{16}$/);
  assert.deepEqual(await client.wait(task.id, { timeout: "2m" }), { frames: 3 });
});

test("an id is accepted once", async () => {
  const first = await client.submit(sh("true", { id: "js-once" }));
  const again = await client.submit(sh("true", { id: "js-once" }));
  assert.deepEqual([first.fresh, again.fresh], [true, false]);
});

test("a failure says why", async () => {
  const { id } = await client.submit(sh("echo it broke >&2; exit 3"));
  await assert.rejects(client.wait(id), (error) => {
    assert.ok(error instanceof TaskFailed);
    assert.match(error.message, /it broke/);
    assert.equal(error.task.error.exit_code, 3);
    return true;
  });
});

test("waiting may end before the task", async () => {
  const { id } = await client.submit(sh("true", { queue: "nobody" }));
  await assert.rejects(client.wait(id, { timeout: 100 }), WaitTimeout);
  const stop = new AbortController();
  const waiting = client.wait(id, { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("a task is cancelled, cloned, edited, retried and deleted", async () => {
  const { id } = await client.submit(sh("true", { queue: "nobody", tags: ["js-verbs"] }));
  const clone = await client.clone(id, { priority: 5 });
  assert.deepEqual([clone.cloned_from, clone.priority], [id, 5]);
  assert.equal((await client.edit(clone.id, { priority: 6 })).priority, 6);
  assert.equal((await client.set(clone.id, { priority: 7 })).priority, 7);
  assert.equal((await client.hold(clone.id)).held, true);
  assert.equal((await client.release(clone.id)).held, false);
  assert.equal((await client.cancel(id)).state, "cancelled");
  await assert.rejects(client.wait(id), TaskCancelled);
  assert.equal((await client.retry(id)).state, "pending");
  await client.cancel(id, { grace: "1s" });
  await client.delete(id);
  await assert.rejects(client.get(id), (error) => error.kind === "unknown-task" && error.status === 404);
});

test("a list goes over all pages", async () => {
  const tasks = Array.from({ length: 7 }, (_, each) => sh("true", { queue: "nobody", tags: ["js-many"], priority: each }));
  const made = await client.submitMany(tasks);
  assert.ok(made.every((task) => task.fresh));
  const found = [];
  for await (const task of client.list({ tag: "js-many", limit: 3 })) found.push(task.id);
  assert.deepEqual(new Set(found), new Set(made.map((task) => task.id)));
  assert.equal(found.length, 7);
});

test("what happens is watched, and what is printed", async () => {
  const { last_event } = await client.request("GET", "/v1/clock");
  const { id } = await client.submit(sh("for i in 1 2 3; do echo line $i; done"));
  const seen = [];
  for await (const event of client.watch({ id, since: last_event })) {
    seen.push(event.event);
    if (event.event === "complete") break;
  }
  assert.equal(seen.at(-1), "complete");
  assert.ok(seen.includes("started"));
  let text = "";
  for await (const piece of client.followLog(id)) text += piece.text;
  assert.equal(text, "line 1\nline 2\nline 3\n");
  assert.equal(await client.log(id), text);
  assert.equal(await client.log(id, { tail: 1 }), "line 3\n");
});

test("flows and sweeps", async () => {
  const flow = await client.submitFlow({
    id: "js-flow",
    name: "two",
    tasks: { a: sh("true"), b: { ...sh("true"), after: ["a"] } },
  });
  assert.equal(flow.fresh, true);
  assert.equal((await client.flow("js-flow")).parts.length, 2);
  const names = (await client.queues()).map((queue) => queue.name);
  assert.ok(names.includes("default"));
  assert.equal((await client.workers()).length, 1);
});

test("a token of one queue submits there", async () => {
  const films = new Client({ token: process.env.STAYER_QUEUE_TOKEN });
  const named = await films.submit({ queue: "films", parameters: 1 });
  const unnamed = await films.submit({ parameters: 2 });
  const [many] = await films.submitMany([{ queue: "films" }]);
  for (const task of [named, unnamed, many]) assert.match(task.id, /^films:[a-z2-7]{16}$/);
  await assert.rejects(films.submit({ queue: "default" }), (error) => error.kind === "forbidden");
});

test("what the server refuses is an error with its words", async () => {
  await assert.rejects(client.submit({ nonsense: 1 }), (error) => {
    assert.ok(error instanceof StayerError);
    assert.deepEqual([error.kind, error.status], ["bad-input", 400]);
    assert.match(error.message, /nonsense/);
    return true;
  });
  await assert.rejects(new Client({ token: "stayer_wrong" }).get("x"), (error) => error.status === 401);
});

test("a lost answer makes no second task", async () => {
  let sent = 0;
  const losing = async (...request) => {
    const answer = await fetch(...request);
    if (sent++ > 0) return answer;
    await answer.text();
    throw new TypeError("fetch failed");
  };
  const task = await new Client({ fetch: losing }).submit(sh("true", { tags: ["js-lost"] }));
  assert.equal(sent, 2);
  assert.equal(task.fresh, false); // the first one was accepted
  assert.equal((await client.page({ tag: "js-lost" })).tasks.length, 1);
});

test("a server that is away is tried again, as long as was said", async () => {
  const away = new Client({ url: "http://127.0.0.1:1", retryFor: 0 });
  await assert.rejects(away.get("x"), Unreachable);
});

test("bad options are refused", () => {
  assert.throws(() => new Client({ url: "redis://here" }), /needs the URL of a server/);
  assert.throws(() => new Client({ url: "http://a:b@here" }), /no place for a secret/);
  assert.throws(() => new Client({ timeout: "soon" }), /no duration/);
});
