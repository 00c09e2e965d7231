// The behaviour of the console's pages: themes, the menu, live parts, sortable tables,
// the dialog of changes, charts. The pages are readable without it.
"use strict";
(function () {
  const root = document.documentElement;
  const $ = (sel, from) => (from || document).querySelector(sel);
  const $$ = (sel, from) => Array.from((from || document).querySelectorAll(sel));

  // Theme: the system's, or what was chosen last.
  function theme() { return root.dataset.theme || "auto"; }
  function showTheme() { $$("[data-theme-name]").forEach((e) => { e.textContent = theme(); }); }
  function nextTheme() {
    const next = { auto: "dark", dark: "light", light: "auto" }[theme()];
    if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
    try { if (next === "auto") localStorage.removeItem("quorate-theme"); else localStorage.setItem("quorate-theme", next); } catch (e) { /* for this page alone */ }
    showTheme();
    redraw();
  }

  // Sortable tables: the order is kept when the table is filled again.
  const sorts = new Map();
  function dress(table) {
    if (!table.id) return;
    $$("thead th", table).forEach((th, i) => {
      if (th.hasAttribute("data-no-sort") || $("button", th) || !th.textContent.trim()) return;
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = th.textContent;
      b.addEventListener("click", () => {
        const was = sorts.get(table.id);
        const down = was && was.column === i ? !was.down : th.classList.contains("n");
        sorts.set(table.id, { column: i, down });
        sort(table);
      });
      th.textContent = "";
      th.append(b);
    });
    sort(table);
  }
  function sort(table) {
    const s = sorts.get(table.id);
    if (!s) return;
    $$("thead th", table).forEach((th, i) => {
      if (i === s.column) th.setAttribute("aria-sort", s.down ? "descending" : "ascending"); else th.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0];
    const value = (row) => { const c = row.cells[s.column]; return c ? (c.dataset.v !== undefined ? c.dataset.v : c.textContent.trim()) : ""; };
    const rows = Array.from(body.rows).map((r) => [value(r), r]);
    rows.sort((a, b) => {
      const x = parseFloat(a[0]), y = parseFloat(b[0]);
      const both = !Number.isNaN(x) && !Number.isNaN(y) && /^[-+.\d]/.test(a[0]) && /^[-+.\d]/.test(b[0]);
      const c = both && x !== y ? x - y : a[0].localeCompare(b[0], "en", { numeric: true });
      return s.down ? -c : c;
    });
    body.append(...rows.map((r) => r[1]));
  }

  // Live parts, as server-sent events. Each is the HTML of the elements data-live="NAME".
  let source = null;
  function trouble(text) {
    const e = $("#trouble");
    if (!e) return;
    if (e.textContent !== text) e.textContent = text;
    e.hidden = !text;
  }
  function live() {
    const from = document.body.dataset.liveFrom;
    if (!from || source || document.hidden) return;
    source = new EventSource(from);
    source.onopen = () => trouble("");
    source.onerror = () => {
      trouble("The page is not live: the node does not answer. The data shown may be old.");
      if (source && source.readyState === EventSource.CLOSED) { still(); setTimeout(live, 5000); }
    };
    $$("[data-live]").forEach((e) => source.addEventListener(e.dataset.live, (ev) => fill(e, ev.data)));
    $$("[data-stream]:not([data-stream-from])").forEach((e) => source.addEventListener(e.dataset.stream, (ev) => add(e, ev.data)));
    streams();
    source.addEventListener("trouble", (ev) => trouble(ev.data));
    source.addEventListener("signed-out", (ev) => { still(); delete document.body.dataset.liveFrom; trouble(ev.data); });
    source.addEventListener("points", (ev) => points(JSON.parse(ev.data)));
  }
  // streams opens the streams of other pages, such as the decisions on the page of a key.
  let others = [];
  function streams() {
    others = $$("[data-stream-from]").map((e) => {
      const from = new EventSource(e.dataset.streamFrom);
      from.addEventListener(e.dataset.stream, (ev) => add(e, ev.data));
      return from;
    });
  }
  function still() {
    if (source) { source.close(); source = null; }
    others.forEach((o) => o.close());
    others = [];
  }
  async function fill(e, html) {
    await htmx.swap({ target: e, text: html, swap: "innerMorph", sourceElement: e });
    $$("table[data-sort]", e).forEach(dress);
  }

  // Rows of a stream, the newest first; beyond data-keep the oldest go. While the page is
  // paused they are dropped.
  let paused = false;
  function add(body, html) {
    if (paused) return;
    const t = document.createElement("template");
    t.innerHTML = html;
    body.prepend(t.content);
    const keep = Number(body.dataset.keep) || 200;
    while (body.children.length > keep) body.lastElementChild.remove();
    const none = $("#none-yet");
    if (none) none.hidden = true;
  }

  // Charts.
  const charts = new Map();
  const longestStep = 4; // seconds without a point of a live chart that are a gap
  // holes are the gaps of a live chart, which are shaded until they are filled.
  function holes(data) {
    const out = [];
    let before;
    data[0].forEach((t, i) => {
      if (data[1][i] === null || data[1][i] === undefined) return;
      if (before && t - before > longestStep) out.push({ from: before, to: t, unknown: true });
      before = t;
    });
    return out;
  }
  const token = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const short = (v) => {
    if (v === null || v === undefined) return "–";
    const a = Math.abs(v);
    for (const [n, s] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) if (a >= n) return (v / (s === "k" ? 1e3 : n)).toFixed(1).replace(/\.0$/, "") + s;
    if (a > 0 && a < .0005) return v < 0 ? ">-0.001" : "<0.001";
    return a >= 100 || v === Math.round(v) ? Math.round(v).toLocaleString("en") : a >= 1 ? v.toFixed(1) : String(Number(v.toFixed(3)));
  };
  const two = (n) => String(n).padStart(2, "0");
  function clock(t, span) {
    const d = new Date(t * 1000);
    const time = two(d.getUTCHours()) + ":" + two(d.getUTCMinutes());
    if (span > 172800) return (d.getUTCMonth() + 1) + "-" + two(d.getUTCDate()) + (span > 864000 ? "" : " " + time);
    return span < 900 ? time + ":" + two(d.getUTCSeconds()) : time;
  }
  function chart(figure) {
    const spec = JSON.parse(figure.dataset.chart);
    zoomed(figure);
    draw(figure, spec, [spec.times || [], ...(spec.series || []).map((s) => s.values || [])]);
  }
  // shade marks incomplete parts behind the lines, hatched where no data exists.
  function shade(u, marks) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    marks.forEach((m) => {
      const from = Math.max(bbox.left, u.valToPos(m.from, "x", true)), to = Math.min(bbox.left + bbox.width, Math.max(from + 2, u.valToPos(m.to, "x", true)));
      ctx.fillStyle = token(m.unknown ? "--idle-bg" : "--warn-bg");
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      if (!m.unknown) return;
      ctx.save();
      ctx.beginPath();
      ctx.rect(from, bbox.top, to - from, bbox.height);
      ctx.clip();
      ctx.strokeStyle = token("--line");
      ctx.beginPath();
      for (let x = from - bbox.height; x < to; x += 12) { ctx.moveTo(x, bbox.top + bbox.height); ctx.lineTo(x + bbox.height, bbox.top); }
      ctx.stroke();
      ctx.restore();
    });
    ctx.restore();
  }
  // A part of a chart that is selected by dragging is shown at another address of the page, or in
  // place, with the part in the address.
  const zooms = new Map();
  const place = (t) => new Date(t * 1000).toISOString().slice(0, 19);
  function select(u, figure, spec) {
    if (u.select.width < 5) return;
    const from = u.posToVal(u.select.left, "x"), to = u.posToVal(u.select.left + u.select.width, "x");
    zoom(figure, spec, [Math.floor(from), Math.ceil(to)]);
  }
  function zoom(figure, spec, part) {
    if (spec.brush) {
      const q = part ? (spec.brush.includes("?") ? "&" : "?") + new URLSearchParams({ from: place(part[0]), to: place(part[1]) }) : "";
      const to = new URL(spec.brush + q + "#past", location);
      if (to.href !== location.href) location.assign(to);
      return;
    }
    if (part) zooms.set(figure.id, part); else zooms.delete(figure.id);
    const hash = part ? "#" + figure.id + "=" + place(part[0]) + "," + place(part[1]) : "";
    history.replaceState(null, "", location.pathname + location.search + hash);
    const c = charts.get(figure.id);
    draw(figure, c.spec, c.data);
  }
  function zoomed(figure) {
    const [, from, to] = decodeURIComponent(location.hash).match(/^#[\w-]+=([^,]+),(.+)$/) || [];
    if (!from || !location.hash.startsWith("#" + figure.id + "=")) return;
    const part = [Date.parse(from + "Z") / 1000, Date.parse(to + "Z") / 1000];
    if (part[0] < part[1]) zooms.set(figure.id, part);
  }
  // last is the newest value that is known: the legend shows it while nothing is pointed at.
  const last = (values) => values.findLast((v) => v !== null && v !== undefined);
  // rules draws vertical lines with their names.
  function rules(u, spec) {
    const { ctx, bbox } = u, scale = devicePixelRatio;
    (spec.lines || []).forEach((l, i) => {
      if (l.at < u.scales.x.min || l.at > u.scales.x.max) return;
      const x = Math.round(u.valToPos(l.at, "x", true));
      const right = x > bbox.left + bbox.width * .8;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = token(i ? "--accent" : "--dim");
      ctx.lineWidth = scale;
      ctx.setLineDash(i ? [] : [4 * scale, 3 * scale]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.font = 12 * scale + "px " + token("--font");
      ctx.textAlign = right ? "right" : "left";
      ctx.fillText(l.name, x + (right ? -5 : 5) * scale, bbox.top + (13 + 15 * i) * scale);
      ctx.restore();
    });
  }
  function draw(figure, spec, data) {
    const old = charts.get(figure.id);
    if (old && old.plot) old.plot.destroy();
    const place = $(".plot", figure);
    place.textContent = "";
    const grid = { stroke: token("--line"), width: 1 };
    const axis = { stroke: token("--dim"), grid, ticks: { show: false }, font: "12px " + token("--font") };
    const plot = new uPlot({
      width: Math.max(200, place.clientWidth), height: spec.height, padding: [null, 30, null, null], // half of the last label
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
      cursor: { points: { size: 6 }, drag: { x: true, y: false, setScale: !spec.brush, dist: 5 } }, legend: { live: true }, hooks: { draw: [(u) => rules(u, spec)], setSelect: [(u) => select(u, figure, spec)], drawClear: [(u) => shade(u, spec.fill ? holes(u.data) : spec.marks || [])] },
      scales: { x: { time: !spec.x }, y: { range: (u, lo, hi) => [Math.min(0, lo || 0), (hi || 1) * 1.08] } },
      axes: [
        Object.assign({ space: 70, values: (u, at) => at.map((t) => (spec.x ? short(t) : t % 1 ? "" : clock(t, u.scales.x.max - u.scales.x.min))) }, axis), // no label twice
        Object.assign({ size: 58, values: (u, at) => at.map((v) => short(v)) }, axis),
      ],
      series: [spec.x ? { label: spec.x, value: (u, t) => (t === null || t === undefined ? "–" : short(t) + spec.xUnit) } : { label: "UTC", value: (u, t) => { t = t || last(u.data[0]); return t ? clock(t, u.scales.x.max - u.scales.x.min) : "–"; } }].concat((spec.series || []).map((s, i) => {
        const color = token("--c" + (s.color || i % 6 + 1));
        return {
          label: s.name, stroke: color, width: 1.75, dash: s.dash ? [5, 4] : undefined, fill: s.fill ? color + "22" : undefined, spanGaps: false, points: { show: (u, i) => u.data[i].filter((v) => v !== null).length <= 24, size: 5 }, // a lone point has no line
          paths: s.steps ? uPlot.paths.stepped({ align: 1 }) : undefined, value: (u, v, si, at) => { if (at === null && !spec.x) v = last(u.data[si]); return v === null || v === undefined ? "–" : short(v) + spec.unit; },
        };
      })),
    }, data, place);
    charts.set(figure.id, { plot, spec, data, figure });
    plot.over.addEventListener("dblclick", () => zoom(figure, spec, null));
    $$("[data-unzoom]", figure).forEach((b) => { b.hidden = !zooms.has(figure.id); });
    const part = zooms.get(figure.id);
    if (part) plot.setScale("x", { min: part[0], max: part[1] });
  }
  function points(all) {
    for (const [id, p] of Object.entries(all)) {
      const c = charts.get("chart-" + id);
      if (!c || c.data[0].length && c.data[0][c.data[0].length - 1] >= p.at) continue;
      const before = c.data[0][c.data[0].length - 1];
      if (p.at - before > longestStep) c.data.forEach((d, i) => d.push(i ? null : before + 1)); // a gap, no line
      c.data[0].push(p.at);
      p.values.forEach((v, i) => { if (c.data[i + 1]) c.data[i + 1].push(v); });
      while (c.data[0].length > c.spec.keep) c.data.forEach((d) => d.shift());
      c.plot.setData(c.data, !zooms.has(c.figure.id));
      if (zooms.has(c.figure.id)) c.plot.redraw();
    }
  }
  // The newest seconds reach the history some seconds later: a live chart that began with a gap asks
  // for them until it has them.
  const fillAfter = [4000, 6000, 8000, 12000];
  function fillLater(id, turn) {
    if (turn < fillAfter.length) setTimeout(() => mend(id, turn), fillAfter[turn]);
  }
  async function mend(id, turn) {
    const c = charts.get(id);
    if (!c || !c.spec.fill) return;
    if (!document.hidden) {
      try {
        const res = await fetch(c.spec.fill, { headers: { Accept: "application/json" } });
        if (res.ok) merge(c, await res.json());
      } catch (e) { /* the next turn asks again */ }
    }
    fillLater(id, turn + 1);
  }
  // merge puts the points of a spec before the last one that is drawn where nothing is known yet.
  function merge(c, spec) {
    const end = c.data[0][c.data[0].length - 1];
    const at = new Map();
    const put = (t, values) => { if (values.some((v) => v !== null) || !at.has(t)) at.set(t, values); };
    spec.times.forEach((t, i) => { if (t <= end) put(t, spec.series.map((s) => s.values[i])); });
    c.data[0].forEach((t, i) => put(t, c.data.slice(1).map((d) => d[i])));
    const times = [...at.keys()].sort((a, b) => a - b);
    c.data = [times, ...c.data.slice(1).map((d, s) => times.map((t) => at.get(t)[s]))];
    draw(c.figure, c.spec, c.data);
  }
  function redraw() { charts.forEach((c) => { if (c.figure.isConnected) draw(c.figure, c.spec, c.data); }); }
  function resize() { charts.forEach((c) => c.plot.setSize({ width: Math.max(200, $(".plot", c.figure).clientWidth), height: c.spec.height })); }
  // A form that names a chart requests its data again, and fills data-out elements.
  const asked = new Map();
  async function again(form, id) {
    const c = charts.get("chart-" + id);
    if (!c || !c.spec.from || !form.checkValidity()) return;
    const turn = (asked.get(c.figure) || 0) + 1;
    asked.set(c.figure, turn);
    const q = new URLSearchParams(new FormData(form));
    const res = await fetch(c.spec.from + (c.spec.from.includes("?") ? "&" : "?") + q, { headers: { Accept: "application/json" } });
    const got = await res.json();
    if (asked.get(c.figure) !== turn) return;
    if (!res.ok) { trouble(got.error || "The data cannot be read."); return; }
    trouble("");
    const spec = Object.assign({}, c.spec, got.chart || {}, { from: c.spec.from });
    if (form.dataset.line === id) spec.lines = (spec.lines || []).slice(0, 1).concat(tried(form));
    draw(c.figure, spec, [spec.times || [], ...(spec.series || []).map((s) => s.values || [])]);
    for (const [name, text] of Object.entries(got.out || {})) $$('[data-out="' + CSS.escape(name) + '"]').forEach((e) => { e.textContent = text; });
  }

  // tried is the line at the value that a form tries; it moves without another request for the curve.
  const tried = (form) => ({ at: Number(form.elements.amount.value), name: "tried" });
  function move(form) {
    const c = charts.get("chart-" + form.dataset.line);
    if (!c || !c.data[0].length) return;
    c.spec.lines = (c.spec.lines || []).slice(0, 1).concat(tried(form));
    c.plot.redraw();
  }
  const chartsOf = (form) => form.dataset.chartFor.split(" ");

  // The dialog of changes. After a change the page is loaded again.
  const dialog = $("#dialog");
  let changed = false;
  function close() {
    if (dialog.open) dialog.close();
    if (changed) location.reload();
  }

  document.addEventListener("htmx:after:swap", (ev) => {
    const body = $("#dialog-body");
    if (ev.detail.ctx.target !== body) return; // a live part: the dialog may just be closing
    const step = $("[data-step]", body);
    if (!step) return;
    if (step.dataset.step === "result") changed = true;
    if (!dialog.open) dialog.showModal();
    const h = $("h1", body);
    if (h) dialog.setAttribute("aria-label", h.textContent.trim());
  });
  document.addEventListener("click", (ev) => {
    const t = ev.target.closest ? ev.target : ev.target.parentElement;
    if (!t) return;
    if (t.closest("[data-theme-toggle]")) nextTheme();
    const whole = t.closest("[data-unzoom]");
    if (whole) { const c = charts.get(whole.closest("figure").id); if (c) zoom(c.figure, c.spec, null); }
    const pause = t.closest("[data-pause]");
    if (pause) {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Resume" : "Pause";
    }
    const menu = t.closest("[data-menu]");
    if (menu) menu.setAttribute("aria-expanded", String($("#nav").classList.toggle("open")));
    const leave = t.closest("[data-close], [data-done]");
    if (leave && dialog.contains(leave)) { ev.preventDefault(); close(); }
    else if (leave && leave.matches("button[data-close]")) history.back();
  });
  dialog.addEventListener("close", () => { $("#dialog-body").textContent = ""; if (changed) location.reload(); });
  let slow = 0, stale = false;
  document.addEventListener("input", (ev) => {
    const form = ev.target.closest("[data-chart-for]");
    if (!form) return;
    const pair = document.getElementById(ev.target.dataset.pair); // a field and its slider
    if (pair) pair.value = ev.target.value;
    const curve = form.dataset.line, moved = (ev.target.name || (pair && pair.name)) === "amount";
    if (curve && moved) move(form);
    if (!moved) stale = true;
    clearTimeout(slow);
    slow = setTimeout(() => {
      chartsOf(form).forEach((id) => { if (id !== curve || stale) again(form, id); });
      stale = false;
    }, 150);
  });
  document.addEventListener("submit", (ev) => { if (ev.target.matches("[data-chart-for]")) { ev.preventDefault(); chartsOf(ev.target).forEach((id) => again(ev.target, id)); } });
  document.addEventListener("visibilitychange", () => { if (document.hidden) still(); else live(); });
  window.addEventListener("pagehide", still);
  window.addEventListener("pageshow", live);
  window.addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  showTheme();
  $$("table[data-sort]").forEach(dress);
  $$("figure[data-chart]").forEach(chart);
  charts.forEach((c, id) => fillLater(id, 0));
  $$("[data-chart-for]").forEach((form) => chartsOf(form).forEach((id) => { const c = charts.get("chart-" + id); if (c && !c.data[0].length) again(form, id); }));
  live();
})();
