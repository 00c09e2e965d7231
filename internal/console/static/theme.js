// Before the first paint, so that nothing flashes.
(function () {
  try {
    var t = localStorage.getItem("quorate-theme");
    if (t === "dark" || t === "light") document.documentElement.dataset.theme = t;
  } catch (e) { /* storage is off: the system's theme */ }
})();
