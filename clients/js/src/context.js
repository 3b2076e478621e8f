// A task while it runs: what its handler may ask and tell.


const FLUSH_MS = 5000;
const FLUSH_WATCHED_MS = 1000;
const FLUSH_BYTES = 64_000;
const LARGEST_PIECE = 1_000_000;

export class TaskContext {
  #ask;
  #isWatched;
  #graceMs;
  #stop = new AbortController();
  #kill = new AbortController(); // aborted a while after #stop
  #chunks = [];
  #waiting = 0; // bytes of #chunks
  #sent = 0; // bytes of the log that the server has
  #flushing = Promise.resolve();
  #flushTimer = null;
  #limitTimer = null;

  constructor(task, { ask, isWatched, graceMs }) {
    this.task = task;
    this.#ask = ask;
    this.#isWatched = isWatched;
    this.#graceMs = graceMs;
  }

  /** Aborted when the task has to stop: it was cancelled or lost, or the worker shuts down. */
  get signal() {
    return this.#stop.signal;
  }

  /** How far it is. */
  async progress(done, total, message) {
    await this.#tell("POST", "progress", { body: { done, total, message } });
  }

  /** Set fields of your own, to find it by; null takes one away, others stay. */
  async setMeta(fields) {
    await this.#tell("POST", "meta", { body: { meta: fields } });
  }

  /** Add to its log. Sent in pieces, in the background. */
  log(text) {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    this.#chunks.push(bytes);
    this.#waiting += bytes.length;
    if (this.#waiting >= FLUSH_BYTES) this.#flushSoon(0);
    else this.#flushSoon(this.#isWatched() ? FLUSH_WATCHED_MS : FLUSH_MS);
  }

  /** Save what the next attempt should go on from: any JSON value, or bytes. */
  async checkpoint(value) {
    const body = value instanceof Uint8Array ? value : new TextEncoder().encode(JSON.stringify(value));
    await this.#tell("PUT", "checkpoint", { body });
  }

  /** What the last attempt saved; null if nothing. */
  async restore({ as = "json" } = {}) {
    try {
      return await this.#ask("GET", "checkpoint", { as });
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  /** The results of the tasks that it runs after, by the names of the parts of its flow. */
  inputs() {
    return this.#ask("GET", "inputs");
  }

  /**
   * Run a program; its output goes to the log. When the task has to stop, the program and what it
   * started get TERM, and KILL when the time to clean up is over. Node.js only.
   */
  async spawn([program, ...words], { cwd = this.task.cwd ?? undefined, env } = {}) {
    const { spawn } = await import("node:child_process");
    this.signal.throwIfAborted();
    const child = spawn(program, words, {
      cwd, env: { ...process.env, ...this.task.env, ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true,
    });
    const signalAll = (name) => {
      try {
        process.kill(-child.pid, name);
      } catch {
        // nobody is left
      }
    };
    const terminate = () => signalAll("SIGTERM");
    const kill = () => signalAll("SIGKILL");
    this.signal.addEventListener("abort", terminate, { once: true });
    this.#kill.signal.addEventListener("abort", kill, { once: true });
    child.stdout.on("data", (bytes) => this.log(bytes));
    child.stderr.on("data", (bytes) => this.log(bytes));
    try {
      const [code, signal] = await new Promise((resolve, reject) => {
        child.once("error", reject);
        child.once("close", (...end) => resolve(end));
      });
      if (code === 0) return undefined;
      const error = new Error(signal ? `killed by ${signal}` : `exit code ${code}`);
      throw Object.assign(error, { name: signal ? "Killed" : "ExitCode", exit_code: code, signal_name: signal });
    } finally {
      kill(); // what it left in its group
      this.signal.removeEventListener("abort", terminate);
      this.#kill.signal.removeEventListener("abort", kill);
    }
  }

  // For the worker

  /** Ask whether the task may begin, and watch its time limit. */
  async begin() {
    await this.#tell("POST", "start", { body: { pid: globalThis.process?.pid } });
    const { time_limit } = this.task;
    if (time_limit) {
      const error = Object.assign(new Error(`it ran for longer than ${time_limit} s`), { name: "TimeLimit", why: "timeout" });
      this.#limitTimer = setTimeout(() => this.stop(error), Math.min(time_limit * 1000, 2 ** 31 - 1));
    }
  }

  /** Run the handler. Its time to clean up ends some time after the task has to stop. */
  async race(handler) {
    this.#stop.signal.throwIfAborted(); // it may have to stop before it has begun
    const killed = new Promise((_, reject) => {
      this.#kill.signal.addEventListener("abort", () => reject(this.#stop.signal.reason), { once: true });
    });
    const result = await Promise.race([(async () => handler())(), killed]);
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
    return result;
  }

  /** Let it stop, and after the time to clean up be given up. What is lost has no time. */
  stop(reason, grace) {
    if (reason.why === "lost") this.#kill.abort(reason);
    if (this.#stop.signal.aborted) return;
    this.#stop.abort(reason);
    if (reason.why === "lost") return;
    const milliseconds = grace === undefined || grace === null ? this.#graceMs : grace * 1000;
    const timer = setTimeout(() => this.#kill.abort(reason), milliseconds);
    timer.unref?.();
  }

  async complete(result) {
    await this.#finish();
    try {
      await this.#tell("POST", "complete", { body: { result: result ?? null } });
    } catch (error) {
      if (error.status !== 413 && error.status !== 400) throw error;
      throw Object.assign(error, { name: "BadResult", final: true }); // fails with what the server says
    }
  }

  /** Tell how it ended otherwise; nothing, if somebody else has it. */
  async fail(error) {
    const reason = this.#stop.signal.aborted ? this.#stop.signal.reason : error;
    if (this.#stop.signal.aborted && !this.#kill.signal.aborted) this.#kill.abort(reason);
    if (reason.why === "lost") return this.#endTimers();
    try {
      await this.#finish();
      if (reason.why === "cancelled") await this.#tell("POST", "cancelled");
      else if (reason.why === "return") await this.#tell("POST", "return", { body: { note: reason.message } });
      else await this.#tell("POST", "fail", { body: faultOf(reason) });
    } catch (refused) {
      if (refused.kind !== "not-held" && refused.kind !== "lease-lost") throw refused;
    }
  }

  /** With the fence: it counts only while this worker has this attempt. */
  #tell(method, where, { query, ...request } = {}) {
    return this.#ask(method, where, { query: { attempt: this.task.attempt, ...query }, ...request });
  }

  #endTimers() {
    clearTimeout(this.#limitTimer);
    clearTimeout(this.#flushTimer);
  }

  async #finish() {
    this.#endTimers();
    await this.#flush();
  }

  #flushSoon(milliseconds) {
    if (milliseconds === 0) clearTimeout(this.#flushTimer);
    else if (this.#flushTimer !== null) return;
    this.#flushTimer = setTimeout(() => {
      this.#flushTimer = null;
      this.#flush().catch((error) => {
        if (error.kind === "not-held") this.stop(Object.assign(error, { why: "lost" }));
      });
    }, milliseconds);
  }

  /** One at a time, in order. */
  #flush() {
    const run = async () => {
      while (this.#waiting > 0) {
        const body = this.#piece();
        await this.#tell("POST", "log", { body, query: { start: this.#sent } });
        this.#sent += body.length;
      }
    };
    this.#flushing = this.#flushing.then(run, run);
    return this.#flushing;
  }

  #piece() {
    const all = new Uint8Array(this.#waiting);
    let at = 0;
    for (const chunk of this.#chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    const rest = all.subarray(LARGEST_PIECE);
    this.#chunks = rest.length > 0 ? [rest] : [];
    this.#waiting = rest.length;
    return all.subarray(0, LARGEST_PIECE);
  }
}

function faultOf(error) {
  const { name = "Error", message = String(error), stack, exit_code, why, final, retry_after } = error ?? {};
  const fault = { type: name, message, traceback: exit_code === undefined ? stack : undefined, exit_code: exit_code ?? undefined };
  return { error: fault, ending: why === "timeout" ? "timeout" : undefined, final, retry_after };
}

