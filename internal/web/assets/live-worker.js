// One event stream for all tabs of a browser: over HTTP/1.1 it has six connections to a host. Runs as a SharedWorker.
"use strict";
const maxPages = 20;
const pages = new Set(); // {port, id, at, sum, open}
let source = null, served = [], timer = 0, due = 0, delay = 1000;

const tell = (page, kind, data) => page.port.postMessage([page.id, kind, data]);

function soon(wait) {
  const at = Date.now() + wait;
  if (timer && due <= at) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(connect, wait);
}

function lost(list) {
  for (const page of list) {
    if (!pages.has(page) || !page.open) continue;
    page.open = false;
    tell(page, "error");
  }
}

function connect() {
  timer = 0;
  if (source) source.close();
  source = null;
  served = [...pages].slice(-maxPages);
  lost([...pages].slice(0, -maxPages));
  if (served.length === 0) return;
  const query = new URLSearchParams({ shared: "1" });
  for (const page of served) {
    query.append("at", page.at);
    query.append("sum", page.sum);
  }
  const mine = served, now = source = new EventSource("/-/live?" + query);
  now.onopen = () => {
    delay = 1000;
    for (const page of mine) {
      page.sum = ""; // from now on the stream changes the page
      tell(page, page.open ? "again" : "open");
      page.open = true;
    }
  };
  now.onerror = () => {
    lost(mine);
    if (now !== source || now.readyState !== EventSource.CLOSED) return; // else the browser connects again
    soon(delay);
    delay = Math.min(delay * 2, 60000);
  };
  now.addEventListener("page", (e) => {
    const head = /^(\S+) (\S+)\n?/.exec(e.data);
    if (!head) return;
    const data = e.data.slice(head[0].length);
    for (const page of head[1] === "*" ? mine : [mine[Number(head[1])]]) {
      if (!pages.has(page)) continue;
      if (head[2] === "end") pages.delete(page);
      tell(page, head[2], data);
    }
  });
}

onconnect = (e) => {
  const port = e.ports[0];
  port.onmessage = ({ data }) => {
    if (data.add) {
      pages.add({ port, id: data.add, at: data.at, sum: data.sum, open: false });
      soon(20); // several tabs that open at once share the connection
      return;
    }
    for (const page of pages) if (page.port === port && page.id === data.remove) pages.delete(page);
    soon(1000);
  };
  port.postMessage([0, "ready", typeof EventSource !== "undefined"]);
};
