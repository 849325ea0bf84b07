// The log of a Job: only the lines on the screen are in the page. Lines come by number from the Server, rendered there; new ones come on
// the page's own stream. What is shown is "rows": a head for each Step, and its lines unless it is folded.
"use strict";
(() => {
  const box = document.getElementById("log");
  if (!box) return;
  const at = (id) => document.getElementById("log-" + id);
  const view = at("view"), space = view.firstElementChild, inner = space.firstElementChild;
  const path = box.dataset.path, narrow = box.dataset.narrow || ""; // what the log is narrowed to
  const TALLEST = 8e6; // pixels: browsers draw nothing beyond some millions
  const OVER = 20; // rows beyond the screen, above and below
  const STDERR = 2, SYSTEM = 3, OPEN = 4, CUT = 8;

  let last = 0, over = box.dataset.over === "true", sections = [], steps = { attempt: 0, steps: [] };
  let layout = [], total = 0; // layout: {section, row, lines}: row is that of the head
  const folded = new Map(); // by first line of the section: true or false as a person chose
  const lines = new Map(); // number -> [milliseconds, what it is, HTML]
  let wrap = false, times = "none", follow = true, loaded = false;
  let top = { row: 0, off: 0 }, atEnd = true, mine = -1, lastY = 0;
  let heights = new Map(), height = 20;
  let picked = null; // [from, to]
  let inSight = !document.getElementById("items") || location.hash === "#log", pageY = 0; // whether the page goes along with what is followed, until a person scrolls it up
  let query = "", hits = [], hitCount = 0, hitUpto = 0, hitAt = -1;

  const keep = (name, value) => { try { localStorage.setItem("legwork-log-" + name, value); } catch { /* not allowed */ } };
  const kept = (name) => { try { return localStorage.getItem("legwork-log-" + name); } catch { return null; } };

  // ---- rows ----
  const isFolded = (s) => folded.has(s.first) ? folded.get(s.first) : s.attempt < steps.attempt && s.attempt < sections.at(-1).attempt;
  function arrange() {
    layout = [];
    total = 0;
    for (const s of sections) {
      const count = isFolded(s) ? 0 : s.last - s.first + 1;
      layout.push({ section: s, row: total, lines: count });
      total += 1 + count;
    }
  }
  function search(list, wanted) { // the last entry for which wanted is true
    let low = 0, high = list.length;
    while (low < high) { const mid = (low + high) >> 1; if (wanted(list[mid])) low = mid + 1; else high = mid; }
    return low - 1;
  }
  function rowAt(row) { // {section} for a head, {section, line} for a line
    const e = layout[search(layout, (x) => x.row <= row)];
    return row === e.row ? { section: e.section } : { section: e.section, line: e.section.first + row - e.row - 1 };
  }
  function rowOf(line) {
    const e = layout[Math.max(0, search(layout, (x) => x.section.first <= line))];
    return e.lines ? e.row + 1 + Math.min(line - e.section.first, e.lines - 1) : e.row;
  }

  // ---- elements ----
  const make = (tag, name, text) => { const e = document.createElement(tag); e.className = name; if (text !== undefined) e.textContent = text; return e; };
  const two = (n, width = 2) => String(n).padStart(width, "0");
  function lasted(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 10) return s.toFixed(1) + "s";
    if (s < 60) return Math.floor(s) + "s";
    if (s < 3600) return Math.floor(s / 60) + "m " + two(Math.floor(s % 60)) + "s";
    return Math.floor(s / 3600) + "h " + two(Math.floor(s % 3600 / 60)) + "m";
  }
  const look = () => times === "day" ? legworkTime.zone() : times;
  function timeOf(ms, section) {
    if (times === "since") {
      const s = Math.max(0, ms - sections[0].begun) / 1000;
      return (s >= 3600 ? Math.floor(s / 3600) + ":" + two(Math.floor(s % 3600 / 60)) : Math.floor(s / 60)) + ":" + two((s % 60).toFixed(3), 6);
    }
    return legworkTime.clock(ms, true);
  }
  function headOf(s) {
    const head = make("button", "lh");
    head.type = "button";
    head.dataset.first = s.first;
    head.setAttribute("aria-expanded", String(!isFolded(s)));
    const current = s.attempt === steps.attempt;
    const step = steps.steps[s.step] || { kind: s.step < 0 ? "All steps" : "Step " + (s.step + 1) };
    head.append(make("span", "lfold"));
    head.append(make("b", "", step.kind));
    if (sections.at(-1).attempt > 1) head.append(make("span", "faint", "Attempt " + s.attempt));
    if (current && step.state) {
      const state = make("span", "lstate " + step.tone);
      const icon = document.getElementById("log-icon-" + step.icon);
      if (icon) state.append(icon.content.cloneNode(true));
      state.append(step.state);
      head.append(state);
    }
    const begun = current && step.begun || s.begun, ended = current && step.runs ? Date.now() : current && step.ended || s.ended;
    head.append(make("span", "faint", lasted(ended - begun)));
    const count = s.last - s.first + 1;
    head.append(make("span", "faint lcount", count.toLocaleString("en") + (count === 1 ? " line" : " lines")));
    return head;
  }
  function whoOf(name, part, item, instance, section) { // the node of a line, or its runner; the instance; the step, where no heading has it
    const e = make("span", "w", name), at = (steps.parts || [])[part - 1], step = steps.steps[item - 1];
    instance = instance || at && at.instance;
    if (instance) e.append(make("span", "wi", " @" + instance));
    if (step && !(section && section.step >= 0)) e.append(make("span", "wi", " " + step.kind));
    e.title = [name, step && step.kind, at && at.runner, instance].filter(Boolean).join(", ");
    return e;
  }
  function lineOf(n, row, section) {
    const e = make("div", "ll");
    e.id = "L" + n;
    const number = make("a", "n", n);
    number.href = "#L" + n;
    e.append(number);
    if (!row) { e.append(make("span", "x wait", " ")); return e; }
    const [ms, kind, html, who, part, item, instance] = row;
    if (times !== "none") e.append(make("time", "t", timeOf(ms, section)));
    const stream = kind & 3;
    if (stream === STDERR) { e.classList.add("err"); e.append(make("span", "s", "err")); }
    if (stream === SYSTEM) { e.classList.add("sys"); e.append(make("span", "s", "lw")); }
    if (who) e.append(whoOf(who, part, item, instance, section));
    const text = make("span", "x");
    text.innerHTML = html; // made by the Server out of text, spans with a class and links alone
    if (kind & CUT) text.append(make("span", "lcut", " … cut here: the download has all of it"));
    e.append(text);
    return e;
  }
  function decorate(e, n) {
    e.classList.toggle("picked", !!picked && n >= picked[0] && n <= picked[1]);
    const hit = hits.length > 0 && hits[search(hits, (x) => x <= n)] === n;
    e.classList.toggle("hit", hit);
    e.classList.toggle("here", hit && hits[hitAt] === n);
    const wanted = hit ? query : "";
    if ((e.marked || "") !== wanted) { e.marked = wanted; mark(e.querySelector(".x"), wanted); }
  }
  function mark(element, wanted) { // within one run of colours
    for (const old of element.querySelectorAll("mark")) old.replaceWith(old.textContent);
    element.normalize();
    if (!wanted) return;
    const fold = wanted === wanted.toLowerCase();
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode() && found.length < 100) found.push(walker.currentNode);
    for (let node of found) {
      for (let i = 0; i < 50; i++) {
        const at = (fold ? node.data.toLowerCase() : node.data).indexOf(wanted);
        if (at < 0) break;
        const hit = node.splitText(at);
        node = hit.splitText(Math.min(wanted.length, hit.data.length));
        const m = document.createElement("mark");
        hit.replaceWith(m);
        m.append(hit);
      }
    }
  }

  // ---- drawing ----
  const exact = () => !wrap && total * height <= TALLEST;
  const heightOf = (row) => wrap ? heights.get(row) || height : height;
  const spaceHeight = () => Math.min(total * height, TALLEST);
  let shown = new Map(); // key -> element
  function fill(first, end) {
    const next = new Map();
    let before = inner.firstElementChild;
    for (let row = first; row < end; row++) {
      const r = rowAt(row), key = r.line ? r.line : "h" + r.section.first;
      const value = r.line ? lines.get(r.line) : JSON.stringify([r.section, isFolded(r.section), steps.attempt, steps.steps[r.section.step], sections.at(-1).attempt]);
      let e = shown.get(key);
      if (!e || e.value !== value || e.look !== look()) {
        const made = r.line ? lineOf(r.line, value, r.section) : headOf(r.section);
        made.value = value;
        made.look = look();
        if (e) { if (before === e) before = e.nextElementSibling; e.remove(); }
        e = made;
      }
      if (r.line) decorate(e, r.line);
      if (e === before) before = before.nextElementSibling; else inner.insertBefore(e, before);
      e.row = row;
      next.set(key, e);
    }
    for (const [key, e] of shown) if (next.get(key) !== e) e.remove();
    shown = next;
    if (wrap) for (const e of next.values()) heights.set(e.row, e.offsetHeight);
  }
  function draw() {
    if (!loaded) return;
    at("empty").hidden = total > 0;
    view.hidden = total === 0;
    if (!total) return;
    space.style.height = spaceHeight() + "px";
    const tall = view.clientHeight, screen = Math.ceil(tall / height);
    if (follow) atEnd = true;
    const real = exact();
    if (atEnd) scrollTo(view.scrollHeight);
    if (real) {
      const y = view.scrollTop;
      top = { row: Math.min(Math.floor(y / height), total - 1), off: y % height };
      const first = Math.max(0, top.row - OVER);
      fill(first, Math.min(total, top.row + screen + OVER));
      inner.style.transform = "translateY(" + first * height + "px)";
    } else if (atEnd) {
      const first = Math.max(0, total - screen - OVER);
      fill(first, total);
      const y = Math.max(view.scrollTop + tall - inner.offsetHeight, inner.offsetHeight < tall ? 0 : -1e9);
      inner.style.transform = "translateY(" + y + "px)";
      let hidden = inner.offsetHeight - tall, row = first;
      while (hidden > heightOf(row) && row < total - 1) hidden -= heightOf(row++);
      top = { row, off: Math.max(0, hidden) };
    } else {
      top.row = Math.max(0, Math.min(top.row, total - 1));
      const first = Math.max(0, top.row - OVER);
      fill(first, Math.min(total, top.row + screen + OVER));
      let above = 0;
      for (let row = first; row < top.row; row++) above += heightOf(row);
      inner.style.transform = "translateY(" + (view.scrollTop - top.off - above) + "px)";
    }
    fetchMissing(top.row, Math.min(total, top.row + screen + 1));
    signs();
    if (follow && inSight && steps.steps.some((s) => s.runs)) show();
  }
  function show() { // the box, where it is below or above the window
    box.scrollIntoView({ block: "nearest" });
    pageY = scrollY;
  }
  addEventListener("scroll", () => {
    if (scrollY < pageY - 1) inSight = false;
    else if (box.getBoundingClientRect().bottom <= innerHeight) inSight = true;
    pageY = scrollY;
  }, { passive: true });
  let drawing = 0;
  const redraw = () => { if (!drawing) drawing = requestAnimationFrame(() => { drawing = 0; draw(); }); };
  function scrollTo(y) {
    if (Math.abs(view.scrollTop - y) < 1) return;
    view.scrollTop = y;
    mine = lastY = view.scrollTop;
  }
  function signs() {
    at("count").textContent = last ? last.toLocaleString("en") + (last === 1 ? " line" : " lines") : "";
    at("follow").setAttribute("aria-pressed", String(follow));
    at("follow").hidden = over;
    at("follow").textContent = follow ? "Following" : "Follow";
    at("end").hidden = atEnd || total * height <= view.clientHeight;
    at("wrap").setAttribute("aria-pressed", String(wrap));
    at("times").textContent = "Timestamps: " + { none: "off", since: "elapsed", day: "clock, " + legworkTime.zone() }[times];
    const all = layout.length > 0 && layout.every((e) => !e.lines);
    at("fold").textContent = all ? "Unfold all" : "Fold all";
  }

  // ---- scrolling ----
  let settling = 0;
  view.addEventListener("scroll", () => {
    const y = view.scrollTop, d = y - lastY;
    lastY = y;
    if (Math.abs(y - mine) < 1.5) { mine = -1; return; }
    mine = -1;
    const most = view.scrollHeight - view.clientHeight;
    atEnd = y >= most - 2;
    if (d < 0 && !atEnd) follow = false;
    else if (atEnd && d > 0 && !over) follow = true;
    if (!exact() && !atEnd) {
      if (y <= 0) top = { row: 0, off: 0 };
      else if (Math.abs(d) < 4 * view.clientHeight) move(d);
      else {
        const place = y / most * Math.max(0, total - view.clientHeight / height);
        top = { row: Math.floor(place), off: place % 1 * height };
      }
      clearTimeout(settling);
      settling = setTimeout(settle, 160);
    }
    redraw();
  });
  function move(d) {
    top.off += d;
    while (top.off < 0 && top.row > 0) top.off += heightOf(--top.row);
    while (top.off >= heightOf(top.row) && top.row < total - 1) top.off -= heightOf(top.row++);
    top.off = Math.max(0, top.off);
  }
  function settle() { // the bar of scrolling shows where we are, also after a long way with the wheel
    if (exact() || atEnd) return;
    const most = view.scrollHeight - view.clientHeight;
    const y = (top.row + top.off / heightOf(top.row)) / Math.max(1, total - view.clientHeight / height) * most;
    scrollTo(Math.max(1, Math.min(y, most - 3)));
    draw();
  }
  function toRow(row, part = 0.3) {
    follow = atEnd = false;
    space.style.height = spaceHeight() + "px";
    const up = Math.floor(view.clientHeight * part);
    if (exact()) scrollTo(Math.max(0, row * height - up));
    else { top = { row, off: 0 }; move(-up); settle(); }
    const most = view.scrollHeight - view.clientHeight;
    if (exact()) atEnd = view.scrollTop >= most - 2;
    draw();
  }
  function toEnd(on) {
    atEnd = true;
    if (on && !over) follow = inSight = true;
    draw();
    if (on) show();
  }
  function toBegin() { follow = atEnd = false; top = { row: 0, off: 0 }; scrollTo(0); draw(); }
  function toLine(n) {
    n = Math.max(1, Math.min(n, last));
    const i = search(sections, (s) => s.first <= n);
    if (i >= 0 && isFolded(sections[i])) { folded.set(sections[i].first, false); heights.clear(); arrange(); }
    toRow(rowOf(n));
    show();
  }

  // ---- what comes from the Server ----
  function take(data) {
    const grew = data.last !== last;
    last = data.last;
    over = over || data.over;
    for (const [n, row] of lines) if (row[1] & OPEN) lines.delete(n);
    data.rows.forEach((row, i) => lines.set(data.from + i, row));
    if (lines.size > 6000) {
      const r = total ? rowAt(Math.min(top.row, total - 1)) : {}, here = r.line || (r.section && r.section.first) || 1;
      for (const n of lines.keys()) if (Math.abs(n - here) > 1500 && n < last - 300) lines.delete(n);
    }
    const before = sections.length;
    sections = data.sections;
    if (grew || before !== sections.length || !layout.length) arrange();
    if (!loaded) begin();
    redraw();
  }
  async function ask(url, signal) {
    const answer = await fetch(url, { headers: { Accept: "application/json" }, redirect: "error", signal });
    if (!answer.ok) {
      const told = await answer.json().catch(() => ({}));
      throw new Error(told.problem || "no answer");
    }
    return answer.json();
  }
  let asking = false, failed = 0;
  async function fetchMissing(first, end) {
    if (asking || Date.now() < failed) return;
    let from = 0;
    for (let row = first; row < end && !from; row++) {
      const { line } = rowAt(row);
      if (line && !lines.has(line)) from = line;
    }
    if (!from) return;
    asking = true;
    try {
      take(await ask(path + "?from=" + Math.max(1, from - OVER) + "&count=256" + narrow));
    } catch {
      failed = Date.now() + 1000;
      setTimeout(redraw, 1100);
    }
    asking = false;
  }
  function begin() {
    loaded = true;
    for (const id of ["search", "actions"]) at(id).hidden = false;
    const wanted = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    follow = !over && !wanted;
    view.hidden = total === 0;
    if (wanted) pick(Number(wanted[1]), Number(wanted[2] || wanted[1]), true);
    else { atEnd = true; redraw(); }
  }
  document.addEventListener("legwork:zone", () => { if (loaded) { heights.clear(); draw(); } });
  document.addEventListener("htmx:sseOpen", (e) => {
    e.detail.source.addEventListener("log", (m) => take(JSON.parse(m.data)));
  });
  function readSteps() {
    const e = at("steps");
    if (e) steps = JSON.parse(e.dataset.steps);
    if (loaded) { arrange(); redraw(); }
  }
  document.addEventListener("htmx:oobAfterSwap", (e) => { if (e.detail.target.id === "log-steps") readSteps(); });
  setInterval(() => { if (steps.steps.some((s) => s.runs)) { for (const [k, e] of shown) if (String(k)[0] === "h") e.value = ""; redraw(); } }, 1000);

  // ---- picking lines ----
  function pick(from, to, go) {
    picked = [Math.min(from, to), Math.max(from, to)];
    if (go) toLine(picked[0]);
    redraw();
  }
  inner.addEventListener("click", (e) => {
    const head = e.target.closest(".lh"), number = e.target.closest("a.n");
    if (head) {
      const s = sections.find((x) => x.first === Number(head.dataset.first));
      if (!s) return;
      follow = false;
      folded.set(s.first, !isFolded(s));
      heights.clear();
      arrange();
      redraw();
    }
    if (number && !e.metaKey && !e.ctrlKey) {
      e.preventDefault();
      const n = Number(number.textContent);
      pick(e.shiftKey && picked ? picked[0] : n, n);
      history.replaceState(history.state, "", "#L" + picked[0] + (picked[1] > picked[0] ? "-L" + picked[1] : ""));
      follow = false;
      signs();
    }
  });
  addEventListener("hashchange", () => {
    const wanted = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    if (wanted && loaded) pick(Number(wanted[1]), Number(wanted[2] || wanted[1]), true);
  });

  // ---- search ----
  let typing = 0, asked = 0, searching = new AbortController(), cut = false; // cut: not all of the log was searched
  const input = at("q");
  async function find(go) {
    const q = input.value, mineNow = ++asked;
    query = q;
    searching.abort(); // the one before: the Server ends it, too
    searching = new AbortController();
    if (!q) { hits = []; hitCount = 0; hitAt = -1; foundSign(""); redraw(); return; }
    foundSign("…");
    let answer;
    try { answer = await ask(path + "/search?q=" + encodeURIComponent(q) + narrow, searching.signal); } catch (fault) {
      if (mineNow === asked) { query = ""; hits = []; hitCount = 0; hitAt = -1; foundSign(fault instanceof TypeError ? "no answer" : fault.message); redraw(); }
      return;
    }
    if (mineNow !== asked) return;
    const here = hits[hitAt];
    hits = answer.lines; hitCount = answer.count; hitUpto = answer.upto; cut = !answer.whole;
    hitAt = here ? search(hits, (x) => x <= here) : -1;
    for (const e of shown.values()) if (e.marked) e.marked = "\n"; // anew
    if (go && hits.length) { // the first from where we are
      const r = rowAt(Math.min(top.row, total - 1)), line = r.line || r.section.first;
      hitAt = Math.min(search(hits, (x) => x < line) + 1, hits.length - 1);
      toLine(hits[hitAt]);
    }
    foundSign(); redraw();
  }
  function foundSign(text) {
    const count = Math.min(hitCount, hits.length).toLocaleString("en") + (more() ? "+" : "") + (cut ? " so far" : "");
    at("found").textContent = text !== undefined ? text : !hitCount ? (cut ? "none so far" : "none") : hitAt < 0 ? count : (hitAt + 1).toLocaleString("en") + " of " + count;
    at("prev").disabled = at("next").disabled = !hits.length;
  }
  const more = () => hitCount > hits.length; // than are named
  async function step(by) {
    if (!query) return;
    if (last > hitUpto && by > 0 && hitAt >= hits.length - 1) await find(false);
    if (!hits.length) return;
    const next = hitAt + by;
    if ((more() || cut) && (next < 0 || next >= hits.length) && hitAt >= 0) return; // the last one named is not the last one
    hitAt = (next + hits.length) % hits.length;
    toLine(hits[hitAt]);
    foundSign(); redraw();
  }
  input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => find(true), 250); });
  input.addEventListener("keydown", (e) => { 
    if (e.key !== "Escape") return;
    clearTimeout(typing);
    input.value = "";
    find(false);
    input.blur();
  });
  at("search").addEventListener("submit", (e) => {
    e.preventDefault();
    clearTimeout(typing);
    if (input.value !== query) find(true); else step(1);
  });
  at("next").addEventListener("click", () => step(1));
  at("prev").addEventListener("click", () => step(-1));

  // ---- buttons and keys ----
  const acts = {
    follow() { if (follow) { follow = false; signs(); } else toEnd(true); },
    wrap() {
      const r = total ? rowAt(Math.min(top.row, total - 1)) : null, end = atEnd;
      wrap = !wrap; keep("wrap", wrap); heights.clear();
      box.classList.toggle("wrap", wrap);
      if (r && !end) toRow(r.line ? rowOf(r.line) : top.row, 0); else draw();
    },
    times() { times = { none: "since", since: "day", day: "none" }[times]; keep("times", times); heights.clear(); draw(); },
    fold() { const all = layout.every((e) => !e.lines); for (const s of sections) folded.set(s.first, !all); heights.clear(); follow = false; arrange(); draw(); },
    end() { toEnd(true); view.focus({ preventScroll: true }); },
  };
  for (const name of Object.keys(acts)) at(name).addEventListener("click", acts[name]);
  let begins = 0; // g alone, or twice: g and another key goes to a page (app.js), and this one is not to jump before
  const g = () => { if (begins) { begins = 0; toBegin(); } else begins = setTimeout(() => { begins = 0; toBegin(); }, 1000); };
  const keys = { n: () => step(1), N: () => step(-1), g, G: () => toEnd(true), f: acts.follow, w: acts.wrap, t: acts.times };
  document.addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.metaKey || e.ctrlKey || e.altKey || !loaded || !total) return;
    if (e.target.closest("input, textarea, select, dialog")) return;
    if (begins) { clearTimeout(begins); if (e.key !== "g") begins = 0; }
    if (keys[e.key] && document.querySelector("[data-keys=on]")) { e.preventDefault(); keys[e.key](); return; }
    if (e.target !== view || exact()) return;
    const page = view.clientHeight - height, by = { ArrowDown: 2 * height, ArrowUp: -2 * height, PageDown: page, PageUp: -page, " ": page }[e.key];
    if (e.key === "Home") { e.preventDefault(); toBegin(); }
    if (e.key === "End") { e.preventDefault(); toEnd(true); }
    if (by) { e.preventDefault(); follow = atEnd = false; move(by); if (top.row >= total - view.clientHeight / height) atEnd = !wrap; settle(); draw(); }
  });
  new ResizeObserver(() => { heights.clear(); redraw(); }).observe(view);

  wrap = kept("wrap") === "true" || (kept("wrap") === null && matchMedia("(max-width: 48rem)").matches);
  times = ["since", "day"].includes(kept("times")) ? kept("times") : "none";
  box.classList.toggle("wrap", wrap);
  view.hidden = false;
  height = parseFloat(getComputedStyle(view).lineHeight) || 20;
  readSteps();
  ask(path + "?from=1&count=1" + narrow).then((data) => { if (!loaded) take(data); }).catch(() => { /* the stream tells the same */ });
})();
