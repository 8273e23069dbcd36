// Light, dark or as the system has it; kept in this browser.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  show(kept());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => root.dataset.theme || "as the system";
    const label = () => { button.setAttribute("aria-label", `Colours: ${name()}`); button.title = `Colours: ${name()}`; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      const order = ["", "light", "dark"];
      const next = order[(order.indexOf(root.dataset.theme || "") + 1) % 3];
      try { if (next) localStorage.setItem("theme", next); else localStorage.removeItem("theme"); } catch { /* not kept then */ }
      show(next);
      label();
      dispatchEvent(new Event("themechange"));
    });
  });
  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const places = { r: "/", c: "/compare", a: "/audit", s: "/scenario" };
    if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { field.focus(); event.preventDefault(); }
    } else if (window.gone && places[event.key]) {
      location.assign(places[event.key]);
    }
    window.gone = event.key === "g";
  });
})();
