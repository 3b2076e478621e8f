// Not a module, so that it runs before anything is drawn: no flash of the other colours.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("stayer-theme");
  } catch (error) {
    // Storage may be forbidden; then the system's choice stands.
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
