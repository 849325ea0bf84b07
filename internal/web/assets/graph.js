// Pan and zoom of the graph of a Stack, by mouse, touch and keyboard, and what is tied to the Module that is pointed at.
// Without it the picture stands there at its natural size and can be scrolled.
"use strict";
(() => {
  const largest = 2, smallest = 0.05, step = 1.25, far = 60;

  function start(frame) {
    if (frame.dataset.started) return;
    frame.dataset.started = "yes";
    const picture = () => frame.querySelector("svg.graph");
    let view = null; // x, y of the upper left corner, and how many pixels of the screen are one of the picture
    let fitted = true; // as long as nobody moved it

    const above = () => parseFloat(getComputedStyle(frame).paddingTop) || 0; // room of the buttons
    const size = () => ({ w: frame.clientWidth || 1, h: frame.clientHeight - above() || 1 });
    const whole = () => { const [, , w, h] = picture().dataset.whole.split(" ").map(Number); return { w: w || 1, h: h || 1 }; };
    const bounded = (scale) => Math.min(largest, Math.max(smallest, scale));

    function draw() {
      if (!picture() || !view) return;
      const { w, h } = size();
      picture().setAttribute("viewBox", [view.x, view.y, w / view.scale, h / view.scale].map((n) => Math.round(n * 100) / 100).join(" "));
    }
    function fit() {
      const { w, h } = size(), all = whole();
      place(bounded(Math.min(1, w / all.w, h / all.h)), true);
    }
    // A picture that is larger than the frame begins at its upper left, so that it can be read.
    function place(scale, fits) {
      const { w, h } = size(), all = whole();
      const begin = (all, span) => (all > span + 1 ? 0 : (all - span) / 2);
      view = { x: begin(all.w, w / scale), y: begin(all.h, h / scale), scale };
      fitted = fits;
      draw();
    }
    // What lies below the point of the frame stays there.
    function zoom(by, px = size().w / 2, py = size().h / 2) {
      const scale = bounded(view.scale * by);
      view.x += px / view.scale - px / scale;
      view.y += py / view.scale - py / scale;
      view.scale = scale;
      fitted = false;
      draw();
    }
    function move(dx, dy) {
      const { w, h } = size(), all = whole();
      const within = (at, span, all) => Math.min(Math.max(at, -span * 0.8), all - span * 0.2); // never all out of sight
      view.x = within(view.x + dx / view.scale, w / view.scale, all.w);
      view.y = within(view.y + dy / view.scale, h / view.scale, all.h);
      fitted = false;
      draw();
    }

    // Its height is that of the picture, up to what the stylesheet allows.
    frame.style.height = "";
    frame.classList.add("moves");
    const readable = frame.clientWidth < 600 ? 0.2 : 0.7; // on a phone all of it is worth more
    const first = Math.max(readable, Math.min(1, size().w / whole().w));
    const natural = Math.max(180, whole().h * first) + above();
    frame.style.height = Math.min(natural, parseFloat(getComputedStyle(frame).maxHeight) || natural) + "px";
    for (const tools of frame.querySelectorAll(".graph-tools")) tools.hidden = false;
    const least = Math.min(1, size().w / whole().w, size().h / whole().h);
    if (least >= readable) fit(); else place(first, false);
    new ResizeObserver(() => (fitted ? fit() : draw())).observe(frame);
    new MutationObserver(() => (fitted ? fit() : draw())).observe(frame, { childList: true }); // the picture came anew

    // ---- pointers: one moves, two enlarge; what was moved is not clicked ----
    const held = new Map();
    let moved = 0, apart = 0;
    const at = (e) => { const r = frame.getBoundingClientRect(); return { x: e.clientX - r.left, y: e.clientY - r.top - above() }; };
    const distance = () => { const [a, b] = [...held.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
    frame.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.target.closest(".graph-tools")) return;
      held.set(e.pointerId, at(e));
      if (held.size === 1) moved = 0;
      if (held.size === 2) apart = distance();
    });
    frame.addEventListener("pointermove", (e) => {
      const before = held.get(e.pointerId), now = at(e);
      if (!before) return;
      held.set(e.pointerId, now);
      if (held.size === 2) {
        const [a, b] = [...held.values()], d = distance();
        if (apart > 0 && d > 0) zoom(d / apart, (a.x + b.x) / 2, (a.y + b.y) / 2);
        apart = d;
        moved = 99;
        return;
      }
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (moved > 4) {
        if (!frame.hasPointerCapture(e.pointerId)) frame.setPointerCapture(e.pointerId);
        frame.classList.add("held");
        move(before.x - now.x, before.y - now.y);
      }
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) frame.addEventListener(name, (e) => {
      if (name === "pointerleave" && frame.hasPointerCapture(e.pointerId)) return;
      held.delete(e.pointerId);
      apart = 0;
      if (held.size === 0) frame.classList.remove("held");
    });
    frame.addEventListener("click", (e) => {
      if (moved > 4 && e.detail > 0 && !e.target.closest(".graph-tools")) { e.preventDefault(); e.stopPropagation(); }
      moved = 0;
    }, true);
    frame.addEventListener("dragstart", (e) => e.preventDefault());
    frame.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey && document.activeElement !== frame) return; // the page scrolls
      e.preventDefault();
      const p = at(e);
      zoom(Math.exp(-e.deltaY * (e.deltaMode === 1 ? 0.05 : 0.002)), p.x, p.y);
    }, { passive: false });

    // ---- keys and buttons ----
    const keys = {
      "+": () => zoom(step), "=": () => zoom(step), "-": () => zoom(1 / step), "0": fit,
      ArrowLeft: () => move(-far, 0), ArrowRight: () => move(far, 0), ArrowUp: () => move(0, -far), ArrowDown: () => move(0, far),
    };
    frame.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
    frame.addEventListener("click", (e) => {
      const button = e.target.closest("[data-zoom]");
      if (button) ({ in: () => zoom(step), out: () => zoom(1 / step), fit })[button.dataset.zoom]();
    });

    // ---- what is tied to a Module ----
    function light(box) {
      const id = box && box.dataset.box, ends = new Set();
      for (const edge of frame.querySelectorAll(".edge")) {
        const on = !!id && (edge.dataset.from === id || edge.dataset.to === id);
        edge.classList.toggle("lit", on);
        if (on) ends.add(edge.dataset.from).add(edge.dataset.to);
      }
      for (const other of frame.querySelectorAll("[data-box]")) other.classList.toggle("lit", ends.has(other.dataset.box));
    }
    frame.addEventListener("pointerover", (e) => light(e.target.closest("[data-box]")));
    frame.addEventListener("pointerleave", () => light(null));
    frame.addEventListener("focusin", (e) => {
      const box = e.target.closest("[data-box]");
      light(box);
      if (!box || !e.target.matches(":focus-visible")) return;
      const r = box.getBoundingClientRect(), f = frame.getBoundingClientRect();
      if (r.left < f.left || r.right > f.right || r.top < f.top || r.bottom > f.bottom) { // what has the focus is in sight
        frame.scrollTo(0, 0);
        move((r.left + r.right - f.left - f.right) / 2, (r.top + r.bottom - f.top - f.bottom) / 2);
      }
    });

    // On paper it is all there.
    let kept = null;
    window.addEventListener("beforeprint", () => { kept = picture().getAttribute("viewBox"); picture().setAttribute("viewBox", picture().dataset.whole); });
    window.addEventListener("afterprint", () => { if (kept) picture().setAttribute("viewBox", kept); });
  }

  const startAll = () => document.querySelectorAll("[data-graph]").forEach(start);
  document.addEventListener("htmx:afterSettle", startAll);
  startAll();
})();
