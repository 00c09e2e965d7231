// The editor of limits: numbers of lines, and what the node finds wrong at them while one
// writes. Without it the text is checked when the form is sent.
"use strict";
(function () {
  const form = document.querySelector("form[data-check]");
  if (!form) return;
  const area = form.querySelector("textarea");
  const gutter = form.querySelector(".gutter");
  const faults = document.getElementById("faults");
  let bad = new Map();

  function numbers() {
    const n = Math.min(area.value.split("\n").length, 20000);
    gutter.textContent = "";
    const all = document.createDocumentFragment();
    for (let i = 1; i <= n; i++) {
      const line = document.createElement("span");
      line.textContent = (bad.has(i) ? "✗ " : "") + i + "\n";
      if (bad.has(i)) { line.className = "bad"; line.title = bad.get(i); }
      all.append(line);
    }
    gutter.append(all);
    gutter.scrollTop = area.scrollTop;
  }
  // go puts the cursor at a place of the text.
  function go(line, column) {
    const lines = area.value.split("\n");
    let at = 0;
    for (let i = 0; i < line - 1 && i < lines.length; i++) at += lines[i].length + 1;
    area.focus();
    area.setSelectionRange(at + column - 1, at + (lines[line - 1] || "").length);
    area.scrollTop = Math.max(0, (line - 3) * parseFloat(getComputedStyle(area).lineHeight));
  }
  function item(list, text, kind, fault) {
    const li = document.createElement("li");
    li.className = kind;
    if (fault && fault.line) {
      const b = document.createElement("button");
      b.type = "button";
      b.className = "place";
      b.textContent = "line " + fault.line;
      b.setAttribute("aria-label", "Go to line " + fault.line + ", column " + fault.column);
      b.addEventListener("click", () => go(fault.line, fault.column));
      li.append(b, " ");
    }
    li.append(text);
    list.append(li);
  }
  function show(got) {
    bad = new Map();
    (got.faults || []).forEach((f) => { if (f.line && !bad.has(f.line)) bad.set(f.line, f.text); });
    area.toggleAttribute("aria-invalid", false);
    if ((got.faults || []).length) area.setAttribute("aria-invalid", "true");
    const list = document.createElement("ul");
    (got.faults || []).slice(0, 50).forEach((f) => item(list, f.text, "bad", f));
    (got.findings || []).slice(0, 20).forEach((f) => item(list, "Probably a mistake: " + f, "warn"));
    if (got.error) item(list, got.error, "bad");
    if (!(got.faults || []).length && !got.error) item(list, got.changes, "fine");
    faults.replaceChildren(list);
    numbers();
  }
  let turn = 0, wait = 0;
  async function check() {
    const mine = ++turn;
    let got;
    try {
      const res = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" } });
      got = await res.json();
    } catch (e) {
      got = { error: "The node does not answer; the text is not checked." };
    }
    if (mine === turn) show(got);
  }
  area.addEventListener("input", () => { numbers(); clearTimeout(wait); wait = setTimeout(check, 350); });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  let sent = false, first = area.value;
  form.addEventListener("submit", () => { sent = true; });
  window.addEventListener("beforeunload", (ev) => { if (!sent && area.value !== first) ev.preventDefault(); });
  numbers();
  if (!area.readOnly) check();
})();
