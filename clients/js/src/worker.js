// A worker of the protocol in docs/reference/worker-protocol.md: takes tasks over HTTP and runs them.
//
// It has no keeper. It promises at-least-once with fenced writes: what it writes counts only while
// it holds the task, and it stops what it runs before its lease ends, as long as it can itself run.

import { Client } from "./client.js";
import { Backoff, isPassing, path, pause } from "./connection.js";
import { TaskContext } from "./context.js";
import { milliseconds } from "./units.js";

const PROTOCOL = 1;
const BEATS_A_LEASE = 8;
const LONGEST_MARGIN_MS = 10_000;
const TAKE_WAIT_S = 30;
const ORDERS_WAIT_S = 30;
const ANSWER_MS = 30_000;
const MOST_OFTEN_MS = 100; // between two beats because of orders

const random = () => globalThis.crypto.randomUUID().replaceAll("-", "");

/** Milliseconds by the clock that has gone further: one of them goes on while the machine sleeps. */
class Stopwatch {
  #monotonic = performance.now();
  #wall = Date.now();

  get elapsed() {
    return Math.max(performance.now() - this.#monotonic, Date.now() - this.#wall);
  }
}

/** Why a task is stopped. The name says what is told to the server. */
export class Stopped extends Error {
  constructor(why, message) {
    super(message);
    this.name = "Stopped";
    this.why = why; // "cancelled" | "lost" | "return" | "timeout"
  }
}

export class Worker {
  #client;
  #options;

  constructor({ handlers = {}, commands = [], queues, slots = 1, lease = "2m", grace = "10s", node, version, ...client }) {
    this.#client = client.client ?? new Client(client);
    if (Object.keys(handlers).length === 0 && commands.length === 0) {
      throw new TypeError("a worker needs `handlers` (functions by the names of tasks) or `commands` (programs it may run)");
    }
    const leaseMs = milliseconds(lease);
    if (leaseMs < 2000) throw new TypeError("a lease is at least 2 seconds");
    this.#options = { handlers, commands, queues, slots, leaseMs, graceMs: milliseconds(grace), node, version };
  }

  /**
   * Work until the signal says stop: then running tasks are stopped and go back to the queue. Also
   * ends when an operator drains the worker, after its last task.
   */
  async run({ signal } = {}) {
    const platform = await host();
    while (!signal?.aborted) {
      const session = new Session(this.#client, { ...platform, ...defined(this.#options) }, signal);
      if ((await session.run()) === "drained") return;
    }
  }
}

/** One life of a worker, under one id: until it is told to stop, or has lost its lease. */
class Session {
  #client;
  #options;
  #outside;
  #id;
  #number = 0;
  #held = new Map(); // id → { attempt, acknowledged, context }
  #ended = new AbortController(); // nothing more is asked
  #leaseFrom = null; // a Stopwatch, begun before the last answered beat was sent
  #draining = false;
  #watched = false;
  #freed = () => {};
  #over = aborted(this.#ended.signal); // one for all: each would leave a listener behind

  constructor(client, options, outside) {
    this.#client = client;
    this.#options = options;
    this.#outside = outside;
    this.#id = `${options.node}-${random().slice(0, 12)}`;
    this.#over.catch(() => {});
  }

  async run() {
    const stop = () => this.#stop();
    this.#outside?.addEventListener("abort", stop, { once: true });
    try {
      await this.#beat();
      const loops = [this.#beatForever(), this.#listen(), this.#guard(), this.#takeForever()];
      return await Promise.race(loops.map((loop) => loop.catch((error) => this.#failed(error))));
    } catch (error) {
      return this.#failed(error);
    } finally {
      this.#outside?.removeEventListener("abort", stop);
      await this.#close();
    }
  }

  /** What ends a session without being an error of the program. */
  #failed(error) {
    if (this.#outside?.aborted) return "stopped";
    if (error?.kind === "lease-lost" || this.#ended.signal.aborted) return "lost";
    throw error;
  }

  #stop() {
    for (const { context } of this.#held.values()) context.stop(new Stopped("return", "the worker shuts down"));
    this.#freed();
  }

  async #close() {
    const lost = this.#ended.signal.aborted;
    for (const { context } of this.#held.values()) {
      context.stop(new Stopped(lost ? "lost" : "return", lost ? "the lease is lost" : "the worker shuts down"));
    }
    await Promise.allSettled([...this.#held.values()].map(({ done }) => done));
    this.#ended.abort(new Error("the session is over"));
    if (!lost && this.#leaseFrom) {
      const body = { number: this.#number };
      await this.#client.request("POST", this.#path("leave"), { body, timeout: 5000 }).catch(() => {});
    }
  }

  #path(...parts) {
    return path("work", this.#id, ...parts);
  }

  /** Send a request until it is answered: unchanged, so it does its work once. */
  async #ask(method, where, request = {}) {
    const backoff = new Backoff();
    for (;;) {
      try {
        return await this.#client.request(method, where, {
          timeout: ANSWER_MS, repeatable: false, signal: this.#ended.signal, ...request,
        });
      } catch (error) {
        if (error.kind === "lease-lost") this.#lose();
        if (!isPassing(error)) throw error;
        await backoff.wait(this.#ended.signal);
      }
    }
  }

  #lose() {
    if (this.#ended.signal.aborted) return;
    for (const { context } of this.#held.values()) context.stop(new Stopped("lost", "the lease is lost"));
    this.#ended.abort(new Error("the lease is lost"));
  }

  // The lease

  async #beat() {
    const { leaseMs, queues, slots, node, pid, version, handlers, commands } = this.#options;
    this.#number += 1;
    const body = {
      protocol: PROTOCOL, number: this.#number, nonce: random(), lease: leaseMs / 1000, queues, slots, node, pid, version,
      draining: this.#draining, handles: { names: Object.keys(handlers), programs: commands, plain: "" in handlers },
      running: [...this.#held].map(([id, { attempt, acknowledged }]) => ({ id, attempt, acknowledged })),
    };
    const since = new Stopwatch(); // before the first try: a repeated beat may renew nothing
    const timeout = Math.min(ANSWER_MS, leaseMs / 4);
    const answer = await this.#ask("POST", this.#path("beat"), { body, timeout });
    this.#leaseFrom = since;
    this.#watched = answer.watched === true;
    for (const { id, attempt } of answer.lost ?? []) this.#forget(id, attempt);
    for (const { id, orders } of answer.orders ?? []) for (const order of orders) this.#obey(id, order);
    if (answer.drain && !this.#draining) {
      this.#draining = true;
      this.#freed();
    }
  }

  #wakeBeat = () => {};

  async #beatForever() {
    const interval = this.#options.leaseMs / BEATS_A_LEASE;
    for (;;) {
      let timer;
      const early = new Promise((resolve) => (this.#wakeBeat = resolve));
      const due = new Promise((resolve) => (timer = setTimeout(resolve, interval)));
      await Promise.race([early, due, this.#over]).finally(() => clearTimeout(timer));
      await this.#beat();
    }
  }

  /** Stop everything before the lease ends, whatever the beats are waiting for. */
  async #guard() {
    const { leaseMs } = this.#options;
    const margin = Math.min(leaseMs / 6, LONGEST_MARGIN_MS);
    for (;;) {
      const left = leaseMs - margin - this.#leaseFrom.elapsed;
      if (left <= 0) {
        this.#lose();
        throw this.#ended.signal.reason;
      }
      await pause(Math.min(left, leaseMs / 20, 1000), this.#ended.signal);
    }
  }

  /** Beat as soon as there may be an order. */
  async #listen() {
    let since;
    for (;;) {
      const query = since === undefined ? {} : { since, seconds: ORDERS_WAIT_S };
      const timeout = ORDERS_WAIT_S * 1000 + ANSWER_MS;
      const answer = await this.#ask("GET", this.#path("wait"), { query, timeout });
      since = answer.position;
      if (!answer.news) continue;
      this.#wakeBeat();
      await pause(MOST_OFTEN_MS, this.#ended.signal);
    }
  }

  #forget(id, attempt) {
    const held = this.#held.get(id);
    if (held?.attempt === attempt) held.context.stop(new Stopped("lost", "somebody else has the task"));
  }

  #obey(id, { number, verb, arguments: details }) {
    const held = this.#held.get(id);
    if (!held || number <= held.acknowledged) return;
    held.acknowledged = number;
    if (verb === "cancel") held.context.stop(new Stopped("cancelled", "it was cancelled"), details?.grace);
    this.#wakeBeat();
  }

  // Tasks

  async #takeForever() {
    for (;;) {
      if (this.#outside?.aborted) return "stopped";
      if (this.#draining) {
        if (this.#held.size === 0) return "drained";
      } else if (this.#held.size < this.#options.slots) {
        await this.#take(this.#options.slots - this.#held.size);
        continue;
      }
      const freed = new Promise((resolve) => (this.#freed = resolve));
      await Promise.race([freed, this.#over]);
    }
  }

  async #take(limit) {
    const stop = new AbortController();
    const onStop = () => stop.abort(new Error("the worker shuts down"));
    this.#outside?.addEventListener("abort", onStop, { once: true });
    this.#ended.signal.addEventListener("abort", onStop, { once: true });
    this.#freed = () => this.#draining && onStop();
    try {
      const body = { key: random(), limit, wait: TAKE_WAIT_S };
      const timeout = TAKE_WAIT_S * 1000 + ANSWER_MS;
      const { tasks } = await this.#ask("POST", this.#path("take"), { body, timeout, signal: stop.signal });
      for (const task of tasks) this.#begin(task);
    } catch (error) {
      // A take that was broken off may have taken something: what no beat names goes back.
      if (!stop.signal.aborted || this.#ended.signal.aborted) throw error;
    } finally {
      this.#outside?.removeEventListener("abort", onStop);
      this.#ended.signal.removeEventListener("abort", onStop);
    }
  }

  #begin(task) {
    const context = new TaskContext(task, {
      ask: (method, where, request) => this.#ask(method, this.#path("tasks", task.id, where), request),
      isWatched: () => this.#watched,
      graceMs: this.#options.graceMs,
    });
    const held = { attempt: task.attempt, acknowledged: 0, context };
    this.#held.set(task.id, held);
    held.done = this.#perform(task, context).finally(() => {
      if (this.#held.get(task.id) === held) this.#held.delete(task.id); // it may be back already
      this.#freed();
    });
    held.done.catch(() => {}); // the session ends for its own reasons
  }

  async #perform(task, context) {
    const { handlers, commands } = this.#options;
    try {
      await context.begin();
      const handler = handlers[task.name ?? ""];
      const result = await context.race(() => {
        if (handler) return handler(task.parameters, context);
        if (task.command && isAllowed(task.command, commands)) return context.spawn(task.command);
        throw new Stopped("return", "this worker can't run it");
      });
      await context.complete(result);
    } catch (error) {
      if (error.kind !== "not-held" && error.kind !== "lease-lost") await context.fail(error);
    }
  }
}

function isAllowed([program], commands) {
  return commands.includes("*") || commands.includes(program);
}

function aborted(signal) {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

const defined = (options) => Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

/** What a server shows of a worker. */
async function host() {
  if (!globalThis.process?.versions?.node) return { node: "browser", version: "stayer-js" };
  const { hostname } = await import("node:os");
  return { node: hostname().replace(/[^\w.:-]/g, "-"), pid: process.pid, version: `stayer-js, Node.js ${process.version}` };
}
