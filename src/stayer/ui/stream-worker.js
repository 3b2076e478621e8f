// One event stream for all tabs: a browser opens only six connections to a server, and every tab
// with a stream of its own would take one for good.

import { connect } from "./source.js";

/** @type {Set<MessagePort>} */
const ports = new Set();
/** @type {{type: string} & Record<string, unknown>} */
let state = { type: "state", up: null, silence: null };

const source = connect(new URL("../v1/", self.location.href).href, (message) => {
  if (message.type === "state") state = message;
  for (const port of ports) port.postMessage(message);
});

self.addEventListener("connect", (event) => {
  const port = /** @type {MessageEvent} */ (event).ports[0];
  ports.add(port);
  port.onmessage = (message) => {
    if (message.data === "bye") ports.delete(port);
    if (message.data === "again") source.again();
  };
  port.postMessage(state);
});
