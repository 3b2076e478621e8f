// Swaps what is behind the # of a login link for a session. No server and no log sees that part of
// the URL, and it is taken out of the history at once.
import { keep } from "../ui/session.js";

const news = document.getElementById("news");
const form = document.getElementById("form");

async function login(secret) {
  const answer = await fetch("v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(secret),
  });
  if (answer.ok) {
    try {
      keep((await answer.json()).page);
      location.replace("./");
    } catch {
      say("This browser keeps nothing for this page (local storage): allow that, and log in again.");
    }
    return;
  }
  const problem = await answer.json().catch(() => ({ detail: answer.statusText }));
  say(problem.detail);
  form.hidden = false;
  document.getElementById("token").focus();
}

// What is in backticks is a command.
function say(sentence) {
  news.replaceChildren(...sentence.split("`").map((part, index) => {
    if (index % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  }));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  login({ token: document.getElementById("token").value.trim() });
});

// Also heard when a link is pasted into the tab that shows this page: then only the part behind the # changes.
function enter() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  history.replaceState(null, "", location.pathname);
  if (code) {
    form.hidden = true;
    say("Logging in …");
    login({ code });
  }
  return code;
}

addEventListener("hashchange", enter);
if (!enter()) {
  say("Use a login link, which `stayer token link` prints, or a token.");
  form.hidden = false;
}
