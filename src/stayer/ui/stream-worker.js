// One event stream for all tabs: a browser opens only six connections to a server, and every tab
// with a stream of its own would take one for good.

import { connect } from "./sse-source.js";

const BASE = new URL("../v1/", self.location.href).href;
/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {{type: string} & Record<string, unknown>} */
let state = { type: "state", up: null, silence: null };
/** @type {ReturnType<typeof connect> | null} */
let source = null;
let known = "";

/** With the secret of the session that the newest tab has. @param {string} secret */
function begin(secret) {
  if (source && secret === known) return;
  known = secret;
  source?.close();
  source = connect(BASE, secret, (message) => {
    if (message.type === "state") state = message;
    for (const port of ports) port.postMessage(message);
  });
}

self.addEventListener("connect", (event) => {
  const port = /** @type {MessageEvent} */ (event).ports[0];
  ports.add(port);
  port.onmessage = (message) => {
    if (message.data === "bye") ports.delete(port);
    else if (message.data === "again") source?.again();
    else begin(message.data.secret);
  };
  port.postMessage(state);
});
