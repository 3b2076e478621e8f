// Against a real server. STAYER_WORK_TOKEN has the role work for the queue "js".

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client, Worker } from "../src/index.js";

const client = new Client();
const token = process.env.STAYER_WORK_TOKEN;
const queue = "js";

/** Run a worker while the function runs. */
async function working(options, run) {
  const stop = new AbortController();
  const worker = new Worker({ token, queues: [queue], lease: "4s", ...options });
  const running = worker.run({ signal: stop.signal });
  try {
    return await Promise.race([run(), running.then(() => assert.fail("the worker has ended"))]);
  } finally {
    stop.abort(new Error("the test is over"));
    await running;
  }
}

/** Whether nothing of a process is left but perhaps its exit code. */
function isGone(pid) {
  try {
    return / [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\)/, ""));
  } catch {
    return true;
  }
}

/** Wait for a condition, by looking. */
async function until(condition, what) {
  for (let looks = 0; looks < 2400; looks++) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.fail(`waited in vain for ${what}`);
}

test("a function runs, with parameters, progress, a log and a result", async () => {
  const handlers = {
    double: async ({ number }, task) => {
      await task.progress(1, 2, "half");
      task.log(`${number} twice\n`);
      return { twice: 2 * number };
    },
  };
  await working({ handlers }, async () => {
    const { id } = await client.submit({ queue, name: "double", parameters: { number: 21 } });
    assert.deepEqual(await client.wait(id, { timeout: "2m" }), { twice: 42 });
    assert.equal(await client.log(id), "21 twice\n");
    const { progress } = await client.get(id);
    assert.deepEqual([progress.done, progress.total, progress.message], [1, 2, "half"]);
  });
});

test("an error fails the task; a checkpoint is there for the next attempt", async () => {
  const handlers = {
    twice: async (_, task) => {
      const saved = await task.restore();
      if (saved) return saved;
      await task.checkpoint({ epoch: 7 });
      await task.setMeta({ best_epoch: 7, draft: null });
      throw new RangeError("too much");
    },
  };
  await working({ handlers }, async () => {
    const { id } = await client.submit({ queue, name: "twice", retries: 1, retry_wait: 0, meta: { draft: true, team: "vision" } });
    assert.deepEqual(await client.wait(id, { timeout: "2m" }), { epoch: 7 });
    const { attempts: [first], meta } = await client.get(id);
    assert.deepEqual([first.error.type, first.error.message], ["RangeError", "too much"]);
    assert.deepEqual(meta, { team: "vision", best_epoch: 7 });
  });
});

test("a program runs, and its exit code counts", async () => {
  await working({ commands: ["sh"], slots: 2 }, async () => {
    const good = await client.submit({ queue, command: ["sh", "-c", "echo hello"] });
    const bad = await client.submit({ queue, command: ["sh", "-c", "echo no; exit 4"] });
    await client.wait(good.id, { timeout: "2m" });
    assert.equal(await client.log(good.id), "hello\n");
    const failed = await client.ended(bad.id, { timeout: "2m" });
    assert.equal(failed.error.exit_code, 4);
  });
});

test("a cancelled task is stopped, with all that it started", async () => {
  // With a lease of an hour no beat is due for minutes: the order itself has to wake the worker.
  await working({ commands: ["sh"], lease: "1h" }, async () => {
    const script = "sleep 1000 & echo $!; wait";
    const { id } = await client.submit({ queue, command: ["sh", "-c", script] });
    const child = Number(await until(async () => (await client.log(id)).trim(), "the child's pid"));
    await client.cancel(id);
    const ended = await client.ended(id, { timeout: "2m" });
    assert.equal(ended.state, "cancelled");
    await until(() => isGone(child), "its child to be gone"); // its files close a moment before
  });
});

test("a worker that shuts down gives back what it runs", async () => {
  let begun;
  const started = new Promise((resolve) => (begun = resolve));
  const slow = (_, task) =>
    new Promise((_, reject) => {
      begun();
      task.signal.addEventListener("abort", () => reject(task.signal.reason), { once: true });
    });
  const { id } = await client.submit({ queue, name: "slow" });
  await working({ handlers: { slow } }, () => started);
  const task = await client.get(id);
  assert.deepEqual([task.state, task.failures], ["pending", 0]);
  await client.cancel(id);
});

test("a task that has to stop before it begins never begins", async () => {
  const stop = new AbortController();
  const stopping = async (url, request) => {
    const answer = await fetch(url, request);
    if (String(url).includes("/start?")) stop.abort(new Error("in this very moment"));
    return answer;
  };
  let calls = 0;
  const early = () => new Promise(() => (calls += 1));
  const { id } = await client.submit({ queue, name: "early" });
  await new Worker({ token, queues: [queue], handlers: { early }, fetch: stopping }).run({ signal: stop.signal });
  const task = await client.get(id);
  assert.deepEqual([calls, task.state, task.failures], [0, "pending", 0]);
  await client.cancel(id);
});

test("what a killed worker ran is run again; a stopped one writes nothing late", async () => {
  const file = fileURLToPath(new URL("./held_worker.js", import.meta.url));
  for (const signal of ["SIGKILL", "SIGSTOP"]) {
    const { id } = await client.submit({ queue, name: "held", parameters: { signal } });
    const other = spawn(process.execPath, [file], { stdio: "ignore" });
    const exited = once(other, "exit");
    try {
      await until(async () => (await client.get(id)).state === "started", "its start");
      other.kill(signal);
      await working({ handlers: { held: () => "by the second" } }, async () => {
        assert.equal(await client.wait(id, { timeout: "2m" }), "by the second");
        if (signal !== "SIGSTOP") return;
        other.kill("SIGCONT");
        other.kill("SIGTERM");
        await exited;
        assert.equal((await client.get(id)).result, "by the second");
      });
      const { attempts } = await client.get(id);
      assert.deepEqual(attempts.map((attempt) => attempt.ending), ["lost", "done"]);
    } finally {
      other.kill("SIGKILL");
      await exited;
    }
  }
});
