// One server: requests, tried again where that is safe, and its streams.

import { StayerError, Unreachable, errorOf } from "./errors.js";

const RETRY_FIRST_MS = 200;
const RETRY_LONGEST_MS = 10_000;

/** Resolves after a time, or rejects when the signal says stop. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Waits that grow, with jitter, so that many clients don't come back at the same moment. */
export class Backoff {
  #next = RETRY_FIRST_MS;

  async wait(signal) {
    const milliseconds = this.#next * (0.5 + Math.random());
    this.#next = Math.min(this.#next * 2, RETRY_LONGEST_MS);
    await pause(milliseconds, signal);
  }

  reset() {
    this.#next = RETRY_FIRST_MS;
  }
}

/** A path below /v1, each part encoded. */
export function path(...parts) {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}

/** Whether the same request may succeed later. */
export function isPassing(error) {
  return error instanceof Unreachable || error?.status >= 500 || error?.status === 429; // a proxy's 502 too
}

export class Connection {
  #base;
  #token;
  #fetch;
  #timeout;
  #retryFor;

  constructor({ url, token, timeout, retryFor, fetch }) {
    if (!/^https?:\/\//.test(url ?? "")) {
      throw new TypeError(
        "a client needs the URL of a server: new Client({ url: \"https://tasks.example.org\" }), or set STAYER_URL",
      );
    }
    const parsed = new URL(url);
    if (parsed.username || parsed.password) {
      throw new TypeError("a URL is no place for a secret: give the token as `token` or STAYER_TOKEN");
    }
    this.#base = url.replace(/\/+$/, "");
    this.#token = token;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#timeout = timeout;
    this.#retryFor = retryFor;
  }

  get url() {
    return this.#base;
  }

  /**
   * Ask, and return the answer as "json", "text", "bytes" or "nothing". A request that is `repeatable`
   * is tried again while the server is away, as long as `retryFor` says.
   */
  async ask(method, where, { repeatable = method === "GET", as = "json", ...request } = {}) {
    const deadline = Date.now() + this.#retryFor;
    const backoff = new Backoff();
    for (;;) {
      try {
        const response = await this.#once(method, where, request);
        if (as === "bytes") return new Uint8Array(await response.arrayBuffer());
        const text = await response.text();
        if (as === "text") return text;
        return as === "nothing" || text === "" ? null : JSON.parse(text);
      } catch (error) {
        if (!repeatable || !isPassing(error) || Date.now() >= deadline) throw error;
        await backoff.wait(request.signal);
      }
    }
  }

  /** Ask, and return the answer itself. Raw bytes are sent as they are. */
  async #once(method, where, { query, body, timeout = this.#timeout, signal, headers = {} }) {
    const stop = new AbortController();
    const onAbort = () => stop.abort(signal.reason);
    if (signal?.aborted) throw signal.reason;
    signal?.addEventListener("abort", onAbort, { once: true });
    const timer = timeout && setTimeout(() => stop.abort(new Error("no answer in time")), timeout);
    let response;
    try {
      response = await this.#fetch(this.#base + where + search(query), {
        method,
        headers: { ...this.#headers(body), ...headers },
        body: body === undefined ? undefined : body instanceof Uint8Array ? body : JSON.stringify(body),
        signal: stop.signal,
        redirect: "error",
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      const why = stop.signal.aborted ? stop.signal.reason.message : (error.cause?.message ?? error.message);
      throw new Unreachable(`${this.#base} can't be reached: ${why}`, { kind: "unreachable", cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  #headers(body) {
    const headers = { Accept: "application/json, text/plain, */*" };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    if (body instanceof Uint8Array) headers["Content-Type"] = "application/octet-stream";
    else if (body !== undefined) headers["Content-Type"] = "application/json";
    return headers;
  }

  /**
   * The messages of a stream, `{ id, event, data }`. After a lost connection it goes on behind the
   * last one; it ends when the caller stops, or when `last` says that a message was the last.
   */
  async *stream(where, { query, since, last = () => false, signal } = {}) {
    let position = since;
    const backoff = new Backoff();
    for (;;) {
      const stop = new AbortController();
      const onAbort = () => stop.abort(signal.reason);
      signal?.addEventListener("abort", onAbort, { once: true });
      try {
        const headers = { Accept: "text/event-stream" };
        if (position !== undefined) headers["Last-Event-ID"] = String(position);
        const response = await this.#once("GET", where, { query, signal: stop.signal, headers });
        for await (const message of messages(response.body)) {
          backoff.reset();
          if (message.id !== undefined) position = message.id;
          if (message.data === undefined) continue;
          yield message;
          if (last(message)) return;
        }
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof StayerError && !isPassing(error)) throw error;
      } finally {
        signal?.removeEventListener("abort", onAbort);
        stop.abort();
      }
      await backoff.wait(signal);
    }
  }
}

function search(query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const each of Array.isArray(value) ? value : [value]) words.append(name, String(each));
  }
  const text = words.toString();
  return text && "?" + text;
}

/** Server-sent events of a body. Their data are JSON. */
async function* messages(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  let message = {};
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const [, name, text] = /^([^:]*):? ?(.*)$/.exec(line);
        if (line === "") {
          if (message.id !== undefined || message.data !== undefined) yield message;
          message = {};
        } else if (name === "id" || name === "event") message[name] = text;
        else if (name === "data") message.data = JSON.parse(text);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
