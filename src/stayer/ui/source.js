// The event stream itself, for the shared worker and for browsers that have none.

/** How long until the next try, in milliseconds. */
const PAUSE = 1000;
const LONGEST_PAUSE = 10_000;

/**
 * @typedef {{type: "event", event: any} | {type: "state", up: boolean} | {type: "login"}} Message
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
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  function open() {
    clearTimeout(timer);
    source?.close();
    source = new EventSource(`${base}events${last ? `?since=${last}` : ""}`);
    source.onopen = () => {
      pause = PAUSE;
      tell({ type: "state", up: true });
    };
    source.onmessage = (message) => {
      last = message.lastEventId || last;
      tell({ type: "event", event: JSON.parse(message.data) });
    };
    source.onerror = () => {
      tell({ type: "state", up: false });
      source?.close();
      timer = setTimeout(retry, pause);
      pause = Math.min(LONGEST_PAUSE, pause * 1.5);
    };
  }

  /** A stream does not say why it was refused; asking who we are does. */
  async function retry() {
    try {
      const answer = await fetch(`${base}session`, { cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401) return tell({ type: "login" });
    } catch {
      timer = setTimeout(retry, pause);
      pause = Math.min(LONGEST_PAUSE, pause * 1.5);
      return;
    }
    open();
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
