// What the pages need of scripts beside htmx: the sign of the stream, sheets, the theme, copying, times, keys.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const on = (name, fn, root = document) => root.addEventListener(name, fn);

  // ---- the event stream of the page ----
  const words = { on: "Live", lost: "Reconnecting…", off: "Not live" };
  let opened = 0;
  function sign(state) {
    const e = one("#live-state");
    if (!e || e.dataset.state === state) return;
    e.dataset.state = state;
    e.textContent = words[state];
  }
  on("htmx:sseOpen", (e) => {
    if (e.target.id !== "live") return; // a sheet may follow something of its own
    opened = Date.now();
    source = e.detail.source;
    rest();
    sign("on");
    // From now on the stream changes the page: a new one must not take it for the page that was loaded.
    const url = new URL(e.target.getAttribute("sse-connect"), location.href);
    url.searchParams.delete("sum");
    e.target.setAttribute("sse-connect", url.pathname + url.search);
    e.detail.source.addEventListener("over", () => { e.detail.source.close(); location.reload(); });
  });
  // A page that is hidden is not followed.
  let source = null, hidden = 0;
  function rest() {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => { if (source) { source.close(); sign("lost"); } }, 2000);
    else if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      const old = one("#live"), fresh = old.cloneNode(); // its stream begins with all that changed
      old.replaceWith(fresh);
      htmx.process(fresh);
    }
  }
  on("visibilitychange", rest);
  window.addEventListener("pageshow", (e) => { if (e.persisted) rest(); });

  // All tabs share one stream, which a worker holds: over HTTP/1.1 a browser has six connections to a host.
  let shared = null, made = 0;
  const followed = new Map();
  class SharedSource extends EventTarget {
    constructor(url) {
      super();
      const query = new URL(url, location.href).searchParams;
      this.readyState = EventSource.CONNECTING;
      this.id = ++made;
      followed.set(this.id, this);
      shared.port.postMessage({ add: this.id, at: query.get("at") || "", sum: query.get("sum") || "" });
    }
    close() {
      if (!followed.delete(this.id)) return;
      this.readyState = EventSource.CLOSED;
      if (shared) shared.port.postMessage({ remove: this.id });
    }
    hear(kind, data) {
      if (kind === "again") opened = Date.now();
      else if (kind === "open") { this.readyState = EventSource.OPEN; this.onopen?.(new Event("open")); }
      else if (kind === "error") { this.readyState = EventSource.CONNECTING; this.onerror?.(new Event("error")); }
      else if (kind === "end") this.fail();
      else this.dispatchEvent(new MessageEvent(kind, { data }));
    }
    fail() { // the extension of htmx makes a new one after a while
      followed.delete(this.id);
      this.readyState = EventSource.CLOSED;
      this.onerror?.(new Event("error"));
    }
  }
  function unshare() {
    shared = null;
    for (const one of [...followed.values()]) one.fail();
  }
  try {
    shared = new SharedWorker(document.documentElement.dataset.liveWorker);
    shared.onerror = unshare;
    shared.port.onmessage = ({ data: [id, kind, data] }) => {
      if (kind === "ready") { if (!data) unshare(); return; }
      followed.get(id)?.hear(kind, data);
    };
    window.addEventListener("pagehide", () => { for (const one of [...followed.values()]) one.close(); });
  } catch { shared = null; }
  htmx.createEventSource = (url) => shared ? new SharedSource(url) : new EventSource(url);
  on("htmx:sseError", (e) => { if (e.target.id === "live") sign("lost"); });
  on("htmx:oobBeforeSwap", (e) => { // what is unfolded stays so
    for (const d of all("details[open][id]", e.detail.target)) {
      const next = one("#" + CSS.escape(d.id), e.detail.fragment);
      if (next) next.open = true;
    }
  });
  on("htmx:oobAfterSwap", (e) => {
    times(e.detail.target);
    if (Date.now() - opened < 400) return; // what comes first is no news
    const element = document.getElementById(e.detail.target.id);
    if (element && element.matches("tr, li, .tile")) {
      element.classList.add("fresh");
      element.addEventListener("animationend", () => element.classList.remove("fresh"), { once: true });
    }
  });

  // ---- the browser's tab: its title and icon show the status of what the page is about ----
  function tab() {
    const status = one("#tab-status");
    if (!status) return;
    document.title = status.dataset.title;
    one("link[rel=icon]").href = status.dataset.icon;
  }
  tab();
  on("htmx:oobAfterSwap", (e) => { if (e.detail.target.id === "tab-status") tab(); });

  // ---- the menu of a narrow window ----
  const menu = one(".menu-button");
  if (menu) {
    const nav = one("#nav");
    const show = (open) => {
      menu.setAttribute("aria-expanded", String(open));
      nav.classList.toggle("closed", !open);
    };
    menu.hidden = false;
    show(false);
    on("click", () => show(menu.getAttribute("aria-expanded") === "false"), menu);
    on("keydown", (e) => { if (e.key === "Escape") { show(false); menu.focus(); } }, nav);
  }

  // A filter that is not set does not stand in the address.
  on("htmx:configRequest", (e) => {
    if (e.detail.verb !== "get") return;
    for (const [name, value] of Object.entries(e.detail.parameters)) if (value === "") delete e.detail.parameters[name];
  });

  // ---- sheets: a form that a link leads to opens over the page ----
  const sheet = () => one("#sheet");
  on("click", (e) => {
    const link = e.target.closest("a[data-sheet]");
    if (!link || e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0 || !sheet()) return;
    e.preventDefault();
    htmx.ajax("GET", link.getAttribute("href"), { source: link, target: "#sheet", select: "#sheet-body", swap: "innerHTML" });
  });
  on("htmx:afterSwap", (e) => {
    if (e.detail.target !== sheet()) return;
    if (!sheet().open) sheet().showModal();
    const first = one("[aria-invalid=true]", sheet()) || one("[autofocus]", sheet())
      || one("input:not([type=hidden], [type=radio]), input[type=radio]:checked, select, textarea", sheet());
    if (first) first.focus();
  });
  // A sheet with unsaved input warns once before it closes.
  function changed(field) {
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
    const served = [...field.options].findIndex((o) => o.defaultSelected);
    return field.selectedIndex !== Math.max(served, 0);
  }
  const isChanged = (root) => all("form[method=post] :is(input:not([type=file], [type=hidden]), select, textarea)", root).some(changed);
  // Whoever reloads or leaves the page is asked when a form holds input that was not sent.
  let sent = false;
  on("submit", () => { sent = true; });
  on("input", () => { sent = false; });
  on("htmx:afterRequest", (e) => { if (!e.detail.successful) sent = false; });
  window.addEventListener("beforeunload", (e) => { if (!sent && isChanged(document)) e.preventDefault(); });
  function keepsInput() {
    if (one("[data-unsaved]", sheet()) || !isChanged(sheet())) return false;
    const box = document.getElementById("trouble-note").content.firstElementChild.cloneNode(true), [first, second] = all("p", box);
    box.classList.replace("bad", "warn");
    box.dataset.unsaved = "";
    first.textContent = "Your input is not saved.";
    second.textContent = "Close again to discard it.";
    one("form", sheet()).prepend(box);
    box.scrollIntoView({ block: "nearest" });
    return true;
  }
  on("input", (e) => { if (inSheet(e.target)) all("[data-unsaved]", sheet()).forEach((old) => old.remove()); });
  on("click", (e) => {
    if (e.target.closest("[data-close]") && sheet() && sheet().open) {
      e.preventDefault();
      if (!keepsInput()) sheet().close();
    }
    if (e.target === sheet() && !one("[data-once]", sheet()) && !keepsInput()) sheet().close(); // on the backdrop
    const gone = e.target.closest("[data-dismiss]");
    if (gone) gone.closest(".toast").remove();
  });

  // ---- what failed: said over the form that waits, else as a toast ----
  const inSheet = (target) => sheet() && target && sheet().contains(target);
  const pageOf = (xhr) => new DOMParser().parseFromString(xhr.responseText || "", "text/html");
  on("htmx:beforeSwap", (e) => {
    if (e.detail.xhr.status < 400) return;
    const body = one("#sheet-body", pageOf(e.detail.xhr));
    // A form comes with what is wrong with it. A page that tells of a fault alone takes no place from a form with what was typed.
    const form = e.detail.target && e.detail.target.id === "sheet-body" && e.detail.target; // in a sheet, or on a page of its own
    const fits = form && body && (!body.hasAttribute("data-fault") || !one("form", form));
    e.detail.shouldSwap = Boolean(fits);
    e.detail.isError = !fits;
  });
  const refused = (e) => {
    const said = one(".note-box.bad", pageOf(e.detail.xhr));
    if (said) trouble(e, ...all("p", said).map((p) => p.textContent));
    else trouble(e, "The Server answered with status " + e.detail.xhr.status + ".", "Try again in a moment.");
  };
  const noAnswer = (e) => {
    const changes = e.detail.requestConfig && e.detail.requestConfig.verb !== "get";
    trouble(e, "The Server did not answer.", changes ? "Whether it was done is not known: look before you try again." : "Try again in a moment.");
  };
  const failures = { "htmx:responseError": refused, "htmx:sendError": noAnswer, "htmx:timeout": noAnswer };
  for (const name in failures) on(name, failures[name]);
  // Whoever asked may be replaced by what is live before the answer is there: then what failed is told to nobody but itself.
  const watched = new WeakSet();
  on("htmx:beforeRequest", (e) => {
    const asks = e.target;
    if (watched.has(asks)) return;
    watched.add(asks);
    for (const name in failures) on(name, (failure) => { if (!asks.isConnected) failures[name](failure); }, asks);
  });
  on("htmx:beforeRequest", (e) => { if (inSheet(e.target)) all("[data-trouble]", sheet()).forEach((old) => old.remove()); });
  function trouble(e, sentence, hint) {
    const form = inSheet(e.detail.target) && sheet().open && (one("form", sheet()) || one("#sheet-body", sheet()));
    const made = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);
    if (form) {
      all("[data-trouble]", sheet()).forEach((old) => old.remove());
      const box = made("trouble-note"), [first, second] = all("p", box);
      box.dataset.trouble = "";
      first.textContent = sentence;
      second.textContent = hint || "";
      form.prepend(box);
      box.scrollIntoView({ block: "nearest" });
      return;
    }
    const text = [sentence, hint].filter(Boolean).join(" ");
    all(".toasts .toast.bad").filter((t) => one("p", t).textContent === text).forEach((t) => t.remove());
    const toast = made("trouble-toast");
    one("p", toast).textContent = text;
    one(".toasts").append(toast);
  }

  // What is shown once is not lost by a key.
  document.addEventListener("cancel", (e) => {
    if (e.target === sheet() && (one("[data-once]", sheet()) || keepsInput())) e.preventDefault();
  }, true);
  // What stands in a closed sheet is over, and the stream that it follows. The event comes when the browser draws: another may be open by then.
  document.addEventListener("close", (e) => { if (e.target === sheet() && !sheet().open) htmx.swap(sheet(), "", { swapStyle: "innerHTML" }); }, true);

  // ---- theme: system, light, dark ----
  let choosing = new AbortController();
  on("submit", (e) => {
    const form = e.target.closest("form[data-theme-form]");
    if (!form) return;
    e.preventDefault();
    const button = one("button", form);
    const next = button.value;
    choosing.abort(); // or the answer to an earlier choice may come last
    choosing = new AbortController();
    fetch(form.action, { method: "POST", body: new URLSearchParams({ theme: next }), headers: { "HX-Request": "true" }, keepalive: true, signal: choosing.signal }).catch(() => {});
    if (next) document.documentElement.dataset.theme = next; else delete document.documentElement.dataset.theme;
    const order = ["", "light", "dark"];
    button.value = order[(order.indexOf(next) + 1) % 3];
    button.dataset.now = next || "system";
    const label = "Theme: " + (next || "system") + ". Change it";
    button.setAttribute("aria-label", label);
    button.title = label;
    all("[data-icon-of]", button).forEach((i) => { i.toggleAttribute("hidden", i.dataset.iconOf !== button.dataset.now); });
  });

  // ---- copy ----
  on("click", async (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    const text = one(button.dataset.copy).textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch { // only where the page came over TLS or from this host
      const range = document.createRange();
      range.selectNodeContents(one(button.dataset.copy));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      done = document.execCommand("copy");
    }
    const before = button.dataset.before || (button.dataset.before = button.textContent);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = before; }, 1600);
  });

  // ---- how long ago: as the Server writes it ----
  function span(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m";
    const minutes = Math.floor((s % 3600) / 60);
    if (s < 86400) return Math.floor(s / 3600) + "h" + (minutes ? " " + minutes + "m" : "");
    return Math.floor(s / 86400) + "d";
  }
  function times(root = document) {
    const found = all("time[data-since]", root);
    for (const t of found) {
      const text = span((Date.now() - skew - Date.parse(t.dateTime)) / 1000) + (t.dataset.since === "ago" ? " ago" : "");
      if (t.textContent !== text) t.textContent = text;
    }
  }
  const served = Number(document.documentElement.dataset.now);
  const skew = served ? Date.now() - served : 0; // this clock against the Server's
  setInterval(times, 1000);

  // ---- keys ----
  const goto = { o: "/", r: "/runners", n: "/nodes", m: "/modules", b: "/runbooks", j: "/jobs", a: "/audit", u: "/users" };
  let g = 0;
  on("keydown", (e) => {
    if (e.defaultPrevented || e.metaKey || e.ctrlKey || e.altKey) return;
    if (e.target.closest("input, textarea, select, dialog")) {
      if (e.key === "Escape" && e.target.matches("[type=search]")) e.target.blur();
      return;
    }
    if (cellTo(e)) return;
    if (!one("[data-keys=on]")) return; // a person turned the keys of one letter off
    if (e.key === "?") { e.preventDefault(); one("#keyboard").click(); return; }
    if (e.key === "/") {
      const search = one("input[type=search]");
      if (search) { e.preventDefault(); search.focus(); search.select(); }
      return;
    }
    if (Date.now() - g < 1000 && goto[e.key] && one('.nav a[href="' + goto[e.key] + '"]')) {
      e.preventDefault();
      location.assign(goto[e.key]);
      return;
    }
    g = e.key === "g" ? Date.now() : 0;
    const keyed = /^[a-z]$/.test(e.key) && one('[aria-keyshortcuts="' + e.key + '"]');
    if (keyed) { e.preventDefault(); keyed.click(); return; }
    if (e.key === "j" || e.key === "k" || e.key === "ArrowDown" || e.key === "ArrowUp") move(e, e.key === "j" || e.key === "ArrowDown" ? 1 : -1);
  });
  // In a matrix arrows go from cell to cell.
  function cellTo(e) {
    const row = e.target.closest(".matrix tbody tr"), by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!row || !by) return false;
    const rows = all("tr", row.parentElement);
    let y = rows.indexOf(row), x = [...row.children].indexOf(e.target.closest("th, td"));
    for (;;) {
      const next = rows[y += by[0]]?.children[x += by[1]], link = next && one("a", next);
      if (link || !next) { e.preventDefault(); link?.focus(); return true; }
    }
  }
  // j and k go through the first link of each row.
  function move(e, step) {
    const links = all("tbody tr").map((row) => one("a, button", row)).filter(Boolean);
    const here = links.indexOf(document.activeElement);
    if (here < 0 && e.key.startsWith("Arrow")) return;
    const next = links[here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step];
    if (next) { e.preventDefault(); next.focus(); }
  }
})();
