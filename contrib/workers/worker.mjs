#!/usr/bin/env node
// A worker for Node.js in one file, one task at a time:
//
//   STAYER_URL=https://tasks.example.org STAYER_TOKEN=stayer_… node worker.mjs QUEUE PROGRAM [ARGUMENT …]
//
// The program gets the task's parameters as JSON on its standard input, and STAYER_TASK and
// STAYER_ATTEMPT. What it prints is the task's log, what it writes to the file $STAYER_RESULT (JSON)
// the result, and its exit code says how it ended.
//
// At least once, with fenced writes: see docs/reference/worker-protocol.md. STAYER_LEASE is in
// seconds (60). For functions in JavaScript, take the class Worker of the package in clients/js.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { STAYER_URL, STAYER_TOKEN, STAYER_LEASE = "60" } = process.env;
const [queue, program, ...words] = process.argv.slice(2);
const lease = Number(STAYER_LEASE) * 1000;
const random = () => randomBytes(16).toString("hex");
const folder = mkdtempSync(join(tmpdir(), "stayer-"));

// By the clock that has gone further: one of them goes on while the machine sleeps.
const clocks = () => [performance.now(), Date.now()];
const elapsed = (since) => Math.max(...clocks().map((now, index) => now - since[index]));

let stopping = false;
let stopRunning = () => {};

class LeaseLost extends Error {}

/** One life of the worker, under an id of its own: until it is to stop, or has lost its lease. */
async function live() {
  const worker = `${hostname().replace(/[^\w.-]/g, "-")}-${random().slice(0, 12)}`;
  const over = new AbortController();
  let number = 0;
  let goodFrom, running, draining;

  /** One request. An answer that can't be had is status 0: it may have been done, so repeat it unchanged. */
  async function ask(method, path, body, milliseconds = 30_000) {
    if (over.signal.aborted) throw new LeaseLost();
    const raw = body instanceof Uint8Array;
    let response, answer;
    try {
      response = await fetch(`${STAYER_URL}/v1/work/${worker}${path}`, {
        method,
        headers: { Authorization: `Bearer ${STAYER_TOKEN}`, "Content-Type": raw ? "application/octet-stream" : "application/json" },
        body: raw ? body : JSON.stringify(body),
        signal: AbortSignal.timeout(milliseconds),
      });
      const text = await response.text();
      answer = text ? JSON.parse(text) : null;
    } catch {
      return { status: 0 };
    }
    if (over.signal.aborted) throw new LeaseLost(); // this life is over, whatever the answer is
    if (answer?.type === "urn:stayer:problem:lease-lost") throw new LeaseLost();
    if ([400, 401, 403].includes(response.status)) throw new Error(answer?.detail);
    return { status: response.status, answer };
  }

  /** A request, until it is answered. */
  async function tell(method, path, body, milliseconds) {
    for (;;) {
      const found = await ask(method, path, body, milliseconds);
      if (found.status !== 0 && found.status !== 429 && found.status < 500) return found;
      await sleep(1000);
    }
  }

  /** Others may run it when the lease is over: nothing of it may be left then. */
  function kill(signal) {
    try {
      process.kill(-running.child.pid, signal);
    } catch {
      // nobody is left
    }
  }

  async function beat() {
    const sent = clocks(); // the lease counts from before the beat was first sent
    const named = running ? [{ id: running.id, attempt: running.attempt, acknowledged: running.acknowledged }] : [];
    const { answer } = await tell(
      "POST",
      "/beat",
      {
        protocol: 1, number: ++number, nonce: random(), lease: lease / 1000, queues: [queue], slots: 1, node: hostname(),
        pid: process.pid, version: "worker.mjs", handles: { names: ["*"], plain: true }, running: named,
      },
      lease / 4,
    );
    goodFrom = sent;
    draining ||= answer.drain;
    if (!running) return;
    if (answer.lost.some(({ id }) => id === running.id)) {
      running.lost = true;
      kill("SIGKILL");
    }
    for (const { id, orders } of answer.orders) {
      if (id !== running.id) continue;
      running.acknowledged = orders.at(-1).number;
      if (orders.some(({ verb }) => verb === "cancel")) stop("cancelled");
    }
  }

  /** Let the program clean up for ten seconds. */
  function stop(why) {
    if (!running || running.why) return;
    running.why = why;
    if (!running.child) return; // it is stopped as soon as it has begun
    kill("SIGTERM");
    setTimeout(kill, 10_000, "SIGKILL").unref();
  }

  /** Beats all the time; ends when the lease can't be kept. */
  async function keepLease() {
    let failed;
    const beats = (async () => {
      while (!over.signal.aborted) {
        await Promise.race([sleep(lease / 8), new Promise((wake) => over.signal.addEventListener("abort", wake, { once: true }))]);
        if (!over.signal.aborted) await beat();
      }
    })().catch((error) => (failed = error));
    while (!over.signal.aborted && !failed) {
      if (elapsed(goodFrom) > lease - Math.min(lease / 6, 10_000)) failed = new LeaseLost();
      await Promise.race([sleep(Math.min(lease / 20, 500)), beats]);
    }
    if (failed) throw failed;
  }

  async function run(task) {
    running = { id: task.id, attempt: task.attempt, acknowledged: 0, child: null };
    const path = (verb, more = "") => `/tasks/${encodeURIComponent(task.id)}/${verb}?attempt=${task.attempt}${more}`;
    try {
      if ((await tell("POST", path("start"), {})).status !== 200) return;
      const file = join(folder, "result");
      rmSync(file, { force: true });
      const child = spawn(program, words, {
        detached: true,
        env: { ...process.env, STAYER_TASK: task.id, STAYER_ATTEMPT: task.attempt, STAYER_RESULT: file },
      });
      running.child = child;
      if (stopping) stop("return");
      if (running.why) kill("SIGTERM");
      child.stdin.on("error", () => {}).end(JSON.stringify(task.parameters));
      let log = Buffer.alloc(0), sent = 0;
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (log = Buffer.concat([log, bytes])));
      const ended = new Promise((resolve) => {
        child.once("error", (error) => resolve({ error: { type: error.code, message: error.message } }));
        child.once("close", (code, signal) => resolve({ code, signal }));
      });
      let end;
      while (!end || log.length > 0) {
        end ??= await Promise.race([ended, sleep(1000)]);
        const piece = log.subarray(0, 500_000);
        if (piece.length === 0) continue;
        const { status } = await tell("POST", path("log", `&start=${sent}`), piece);
        if (status === 409) running.lost = true;
        log = log.subarray(piece.length);
        sent += piece.length;
      }
      kill("SIGKILL"); // what it left behind
      if (running.lost) return;
      if (running.why === "cancelled") await tell("POST", path("cancelled"), {});
      else if (running.why === "return") await tell("POST", path("return"), { note: "the worker shuts down" });
      else if (end.code === 0) {
        const { status } = await tell("POST", path("complete"), { result: resultIn(file) });
        const error = { type: "TooLarge", message: "its result is too large" };
        if (status === 413) await tell("POST", path("fail"), { error, final: true });
      }
      else {
        const message = end.signal ? `killed by ${end.signal}` : `exit code ${end.code}`;
        await tell("POST", path("fail"), { error: end.error ?? { type: "ExitCode", message, exit_code: end.code } });
      }
    } finally {
      running = null;
    }
  }

  function resultIn(file) {
    try {
      return JSON.parse(readFileSync(file, "utf8"));
    } catch {
      return null;
    }
  }

  async function takeTasks() {
    let key = random();
    while (!stopping && !draining) {
      const wait = Math.min(30, lease / 8000);
      const { status, answer } = await ask("POST", "/take", { key, limit: 1, wait }, wait * 1000 + 10_000);
      if (status !== 200) await sleep(1000); // and again with the same key: it returns the same tasks
      else {
        key = random();
        for (const task of answer.tasks) await run(task);
      }
    }
  }

  stopRunning = () => stop("return");
  try {
    await beat();
    await Promise.race([takeTasks(), keepLease()]);
    await tell("POST", "/leave", { number });
    return draining;
  } finally {
    if (running?.child) kill("SIGKILL");
    over.abort();
  }
}

for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => ((stopping = true), stopRunning()));
let drained = false;
while (!stopping && !drained) {
  drained = await live().catch((error) => {
    if (!(error instanceof LeaseLost)) throw error;
  });
}
rmSync(folder, { recursive: true });
process.exit();
