// Swaps what is behind the # of a login link for a session. No server and no log sees that part of
// the URL, and it is taken out of the history at once.
const news = document.getElementById("news");
const form = document.getElementById("form");

async function login(secret) {
  const answer = await fetch("v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Stayer-Request": "1" },
    body: JSON.stringify(secret),
  });
  if (answer.ok) {
    location.replace("./");
    return;
  }
  const problem = await answer.json().catch(() => ({ detail: answer.statusText }));
  news.textContent = problem.detail;
  form.hidden = false;
  document.getElementById("token").focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  login({ token: document.getElementById("token").value.trim() });
});

const code = new URLSearchParams(location.hash.slice(1)).get("code");
history.replaceState(null, "", location.pathname);
if (code) {
  login({ code });
} else {
  news.textContent = "Use the login link that stayer serve prints, or a token.";
  form.hidden = false;
}
