// The event stream itself, for the shared worker and for browsers that have none.

/** How long until the next try, in milliseconds. */
const PAUSE = 1000;
const LONGEST_PAUSE = 10_000;
/** Of a store that is away, while its server answers. */
const STORE_PAUSE = 3000;
/** How long a server may take to say whether it is there. */
const PATIENCE = 5000;
/** How soon after its beginning a stream says that the store is still silent. */
const WORD = 500;

/** @typedef {{since: string | null, said: string}} Silence of the store: since when, if that is known, and why */
/**
 * @typedef {{type: "event", event: any} | {type: "state", up: boolean, silence: Silence | null} | {type: "login"}} Message
 */

/**
 * Stay connected, whatever happens to the server; goes on where it was.
 * @param {string} base the URL of `v1/`
 * @param {string} secret of the session
 * @param {(message: Message) => void} tell
 */
export function connect(base, secret, tell) {
  // Not an EventSource, which sends no header.
  let stream = new AbortController();
  let streams = false;
  let last = "";
  let pause = PAUSE;
  /** @type {Silence | null} */
  let silence = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  function state(/** @type {boolean} */ up, /** @type {Silence | null} */ found) {
    silence = found;
    tell({ type: "state", up, silence });
  }

  function later(/** @type {number} */ longest) {
    clearTimeout(timer);
    timer = setTimeout(() => retry(), Math.min(pause, longest));
    pause = Math.min(LONGEST_PAUSE, pause * 1.5);
  }

  const headers = { "X-Stayer-Request": secret };

  async function open() {
    clearTimeout(timer);
    stream.abort();
    stream = new AbortController();
    streams = true;
    const { signal } = stream;
    let opened = false;
    try {
      const answer = await fetch(`${base}events${last ? `?since=${last}` : ""}`, {
        headers: { ...headers, Accept: "text/event-stream" }, cache: "no-store", credentials: "same-origin", signal,
      });
      if (answer.ok && answer.body) {
        opened = true;
        pause = PAUSE;
        if (silence) timer = setTimeout(() => state(true, null), WORD);
        else state(true, null);
        await read(answer.body, take);
      }
    } catch {
      // Told below.
    }
    if (signal.aborted) return;
    streams = false;
    if (!opened) return retry(true);
    state(false, silence);
    later(LONGEST_PAUSE);
  }

  function take(/** @type {string} */ kind, /** @type {string} */ id, /** @type {string} */ data) {
    last = id || last;
    if (kind === "message" && data) tell({ type: "event", event: JSON.parse(data) });
    if (kind === "store") {
      clearTimeout(timer);
      const { answers, since, detail } = JSON.parse(data);
      state(true, answers ? null : { since, said: detail });
    }
  }

  /** A stream does not say why it was refused; asking who we are, and whether the store is there, does. */
  async function retry(refused = false) {
    try {
      const ask = (/** @type {string} */ what) => fetch(base + what, { headers, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) });
      if ((await ask("session")).status === 401) return tell({ type: "login" });
      const ready = await ask("../readyz");
      if (ready.status === 503) {
        state(true, { since: silence?.since ?? null, said: (await ready.json()).detail });
        return later(STORE_PAUSE);
      }
      if (!refused) return open();
    } catch {
      // Told below.
    }
    state(false, silence);
    later(LONGEST_PAUSE);
  }

  open();
  return {
    close() {
      clearTimeout(timer);
      stream.abort();
    },
    /** Try at once, for example because the tab is looked at again. */
    again() {
      if (!streams) {
        clearTimeout(timer);
        pause = PAUSE;
        retry();
      }
    },
  };
}

/**
 * Read server-sent events until the stream ends.
 * @param {ReadableStream<Uint8Array>} body
 * @param {(kind: string, id: string, data: string) => void} take
 */
async function read(body, take) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let [kind, id, data] = ["message", "", ""];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        take(kind, id, data);
        [kind, id, data] = ["message", "", ""];
      }
      const [, field, word] = line.match(/^(\w+): ?(.*)$/) ?? [];
      if (field === "event") kind = word;
      if (field === "id") id = word;
      if (field === "data") data += word;
    }
  }
}
