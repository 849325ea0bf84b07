// One time zone for all times on all pages: that of the browser, UTC, or that of the server. The choice is kept in this browser.
"use strict";
(() => {
  const key = "legwork-zone";
  const zones = {
    browser: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
    utc: "UTC",
    server: document.documentElement.dataset.serverZone || "UTC",
  };
  const all = (selector) => document.querySelectorAll(selector);
  let choice = "browser", format = null;

  function kept() {
    try { return localStorage.getItem(key); } catch { return null; }
  }
  function formatIn(timeZone) {
    return new Intl.DateTimeFormat("en-GB", { timeZone, hourCycle: "h23", weekday: "short", day: "numeric", month: "long", year: "numeric",
      hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  }
  function use(wanted) {
    choice = zones[wanted] ? wanted : "browser";
    try { format = formatIn(zones[choice]); } catch { // this browser does not know the zone
      choice = "utc";
      format = formatIn("UTC");
    }
  }
  function parts(ms) {
    const found = {};
    for (const p of format.formatToParts(ms)) found[p.type] = p.value;
    return found;
  }
  function clock(ms, precise) {
    const p = parts(ms);
    return p.hour + ":" + p.minute + (precise ? ":" + p.second + "." + p.fractionalSecond : "");
  }
  function moment(ms) {
    const p = parts(ms);
    return p.day + " " + p.month + " " + p.year + ", " + p.hour + ":" + p.minute + ":" + p.second + " " + zones[choice];
  }
  function day(ms) {
    const p = parts(ms);
    return p.weekday + " " + p.day + " " + p.month + " " + p.year + ", " + p.hour + ":" + p.minute + " " + zones[choice];
  }
  function set(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  function show() {
    for (const t of all("time[data-since]")) {
      const title = (t.dataset.since === "span" ? "since " : "") + moment(Date.parse(t.dateTime));
      if (t.title !== title) t.title = title;
    }
    for (const t of all("time[data-moment]")) set(t, day(Date.parse(t.dateTime)));
    for (const t of all("[data-clock]")) set(t, clock(Date.parse(t.dataset.clock)));
    for (const e of all("[data-zone-name]")) set(e, zones[choice]);
  }

  use(kept());
  const select = document.querySelector("#zone");
  if (select) {
    for (const o of select.options) o.textContent = o.dataset.title + ": " + zones[o.value];
    select.value = choice;
    select.closest("[hidden]").hidden = false;
    select.addEventListener("change", () => {
      use(select.value);
      try { localStorage.setItem(key, choice); } catch { /* it holds for this page */ }
      show();
      document.dispatchEvent(new Event("legwork:zone"));
    });
  }
  show();
  document.addEventListener("htmx:oobAfterSwap", show);
  document.addEventListener("htmx:afterSwap", show);
  window.legworkTime = { clock, zone: () => zones[choice] };
})();
