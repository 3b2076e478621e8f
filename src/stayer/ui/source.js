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
 * @param {(message: Message) => void} tell
 */
export function connect(base, tell) {
  /** @type {EventSource | null} */
  let source = null;
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

  function open() {
    clearTimeout(timer);
    source?.close();
    source = new EventSource(`${base}events${last ? `?since=${last}` : ""}`);
    let opened = false;
    source.onopen = () => {
      opened = true;
      pause = PAUSE;
      if (silence) timer = setTimeout(() => state(true, null), WORD);
      else state(true, null);
    };
    source.onmessage = (message) => {
      last = message.lastEventId || last;
      tell({ type: "event", event: JSON.parse(message.data) });
    };
    source.addEventListener("store", (message) => {
      clearTimeout(timer);
      const { answers, since, detail } = JSON.parse(message.data);
      state(true, answers ? null : { since, said: detail });
    });
    source.onerror = () => {
      source?.close();
      if (!opened) return retry(true);
      state(false, silence);
      later(LONGEST_PAUSE);
    };
  }

  /** A stream does not say why it was refused; asking who we are, and whether the store is there, does. */
  async function retry(refused = false) {
    try {
      const ask = (/** @type {string} */ what) => fetch(base + what, { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) });
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
      source?.close();
    },
    /** Try at once, for example because the tab is looked at again. */
    again() {
      if (source?.readyState === EventSource.CLOSED) {
        clearTimeout(timer);
        pause = PAUSE;
        retry();
      }
    },
  };
}
