// Submitting tasks, following them, steering them.

import { Connection, Backoff, isPassing, path } from "./connection.js";
import { TaskCancelled, TaskFailed, WaitTimeout } from "./errors.js";
import { milliseconds } from "./units.js";

const FINISHED = new Set(["complete", "failed", "cancelled"]);
const LONGEST_POLL_S = 50;
const LETTERS = "abcdefghijklmnopqrstuvwxyz234567";

const environment = () => globalThis.process?.env ?? {};

/** A new id, as the server would draw it: sent again after a lost answer, it is the same task. */
function drawId() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("");
}

/** With an id, drawn if it has none. */
const withId = (task) => ({ ...task, id: task.id ?? drawId() });

/** The same for a token that may only choose ids that begin with the name of the queue. */
function belowQueue(task, given) {
  if (given.id !== undefined) return task;
  const { id, ...rest } = task;
  return task.queue === undefined ? rest : { ...rest, id: `${task.queue}:${id}` };
}

export class Client {
  #connection;

  constructor(options = {}) {
    const given = typeof options === "string" || options instanceof URL ? { url: String(options) } : options;
    const { STAYER_URL, STAYER_STORE, STAYER_TOKEN } = environment();
    this.#connection = new Connection({
      ...given,
      url: given.url === undefined ? (STAYER_URL ?? STAYER_STORE) : String(given.url),
      token: given.token ?? STAYER_TOKEN,
      timeout: milliseconds(given.timeout ?? "30s"),
      retryFor: milliseconds(given.retryFor ?? "1m"),
    });
  }

  get url() {
    return this.#connection.url;
  }

  /** Any request of the HTTP API, for what has no method here. */
  request(method, where, options) {
    return this.#connection.ask(method, where, options);
  }

  // Submitting

  /** Submit a task. With the same id it is accepted once, however often it is sent. */
  async submit(task, options) {
    const sent = withId(task);
    return await this.#submit(sent, (change) => change(sent, task), options);
  }

  /** Submit many tasks, in portions of up to 1,000. Each portion is accepted whole or not at all. */
  async submitMany(tasks, options) {
    const answers = [];
    for (let start = 0; start < tasks.length; start += 1000) {
      const given = tasks.slice(start, start + 1000);
      const sent = given.map(withId);
      const each = (change) => sent.map((task, index) => change(task, given[index]));
      answers.push(...(await this.#submit(sent, each, options)).tasks);
    }
    return answers;
  }

  async #submit(body, each, options) {
    try {
      return await this.#connection.ask("POST", "/v1/tasks", { ...options, body, repeatable: true });
    } catch (error) {
      if (error.kind !== "forbidden") throw error;
      const again = each(belowQueue);
      const unnamed = [again].flat().some((task) => task.id === undefined);
      if (JSON.stringify(again) === JSON.stringify(body)) throw error;
      return await this.#connection.ask("POST", "/v1/tasks", { ...options, body: again, repeatable: !unnamed });
    }
  }

  /** Submit a flow: what a flow.json says. */
  submitFlow(flow, options) {
    const repeatable = flow.id !== undefined;
    return this.#connection.ask("POST", "/v1/flows", { ...options, body: flow, repeatable });
  }

  /** Submit a task for each combination of parameters. */
  submitSweep(sweep, options) {
    const repeatable = sweep.id !== undefined;
    return this.#connection.ask("POST", "/v1/sweeps", { ...options, body: sweep, repeatable });
  }

  // Looking

  /** A task with its attempts and events. */
  get(id, options) {
    return this.#connection.ask("GET", path("tasks", id), options);
  }

  /** All tasks that match, newest first; pages are fetched as they are needed. */
  async *list(filter = {}, { signal } = {}) {
    let cursor;
    do {
      const page = await this.page({ ...filter, cursor }, { signal });
      yield* page.tasks;
      cursor = page.next;
    } while (cursor);
  }

  /** One page of the same: `{ tasks, next }`. */
  page(filter = {}, options) {
    return this.#connection.ask("GET", "/v1/tasks", { ...options, query: filter });
  }

  queues(options) {
    return this.#connection.ask("GET", "/v1/queues", options).then((found) => found.queues);
  }

  workers(options) {
    return this.#connection.ask("GET", "/v1/workers", options).then((found) => found.workers);
  }

  flow(id, options) {
    return this.#connection.ask("GET", path("flows", id), options);
  }

  sweep(id, options) {
    return this.#connection.ask("GET", path("sweeps", id), options);
  }

  /** Why a task waits, or what it does, and when it will start and end. */
  explain(id, options) {
    return this.#connection.ask("GET", path("tasks", id, "explain"), options);
  }

  // Following

  /** Wait until a task has ended, and return its record, however it ended. */
  async ended(id, { timeout, signal } = {}) {
    const deadline = timeout === undefined ? Infinity : Date.now() + milliseconds(timeout);
    const backoff = new Backoff();
    for (;;) {
      const left = Math.max(0, deadline - Date.now());
      const wait = Math.min(LONGEST_POLL_S, left / 1000);
      try {
        await this.#connection.ask("GET", path("tasks", id, "result"), {
          query: { wait: `${wait.toFixed(3)}s` },
          timeout: (wait + 30) * 1000,
          repeatable: false,
          as: "nothing", // it may be bytes; the record has it too
          signal,
        });
      } catch (error) {
        if (isPassing(error) && Date.now() < deadline) {
          await backoff.wait(signal); // a long wait outlives a restart of the server
          continue;
        }
        if (!["refused", "task-failed", "task-cancelled"].includes(error.kind)) throw error;
      }
      backoff.reset();
      const task = await this.get(id, { signal });
      if (FINISHED.has(task.state)) return task;
      if (Date.now() >= deadline) throw new WaitTimeout(id);
    }
  }

  /** Wait for a task's result. Throws TaskFailed, TaskCancelled or WaitTimeout. */
  async wait(id, options) {
    const task = await this.ended(id, options);
    if (task.state === "failed") throw new TaskFailed(task);
    if (task.state === "cancelled") throw new TaskCancelled(task);
    return task.result;
  }

  /** What happens to tasks, as it happens. Goes on after a lost connection, and misses nothing. */
  async *watch({ queue, id, since, signal } = {}) {
    const stream = this.#connection.stream("/v1/events", { query: { queue, id, since }, signal });
    for await (const message of stream) {
      if (message.event === undefined) yield message.data;
    }
  }

  /** What a task has printed: all of an attempt, or its last lines. */
  log(id, { attempt, tail, signal } = {}) {
    const query = { attempt, tail };
    return this.#connection.ask("GET", path("tasks", id, "log"), { query, signal, as: "text" });
  }

  /** What a task prints, live: `{ attempt, start, text }`, until it has ended. */
  async *followLog(id, { attempt, tail, signal } = {}) {
    const query = { attempt, tail, follow: true };
    const last = (message) => message.event === "end";
    for await (const message of this.#connection.stream(path("tasks", id, "log"), { query, last, signal })) {
      if (message.event === "log") yield message.data;
    }
  }

  // Steering

  cancel(id, { grace, signal } = {}) {
    return this.#steer(id, "cancel", grace === undefined ? {} : { grace: milliseconds(grace) / 1000 }, signal);
  }

  retry(id, { signal, ...body } = {}) {
    return this.#steer(id, "retry", body, signal);
  }

  /** Submit a task like this one, with changes; results and checkpoints are not copied. */
  clone(id, { signal, ...changes } = {}) {
    const named = changes.id !== undefined;
    return this.#connection.ask("POST", path("tasks", id, "clone"), { body: changes, repeatable: named, signal });
  }

  edit(id, { signal, ...changes }) {
    return this.#steer(id, "edit", changes, signal);
  }

  /** Change the priority, the limits or the hooks of a task that has not ended. */
  set(id, { signal, ...changes }) {
    return this.#connection.ask("PATCH", path("tasks", id), { body: changes, repeatable: true, signal });
  }

  hold(id, options) {
    return this.#steer(id, "hold", undefined, options?.signal);
  }

  release(id, options) {
    return this.#steer(id, "release", undefined, options?.signal);
  }

  pause(id, options) {
    return this.#steer(id, "pause", undefined, options?.signal);
  }

  resume(id, options) {
    return this.#steer(id, "resume", undefined, options?.signal);
  }

  signal(id, name, options) {
    return this.#steer(id, "signal", { signal: name }, options?.signal);
  }

  /** Forget a finished task. */
  async delete(id, options) {
    await this.#connection.ask("DELETE", path("tasks", id), options);
  }

  #steer(id, verb, body, signal) {
    return this.#connection.ask("POST", path("tasks", id, verb), { body, signal });
  }
}
