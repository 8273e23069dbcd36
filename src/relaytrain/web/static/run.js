// A run's page goes on by itself: the server sends what has changed, and the epochs that are new.
"use strict";
(() => {
  const page = document.getElementById("run");
  const run = page.dataset.run;
  const hosts = ["chart-loss", "chart-energy", "legend"].map((id) => document.getElementById(id));
  hosts.forEach((host) => { host.hidden = false; });
  const charts = new RunCharts(hosts[0], hosts[1]);
  let wait = 2000;

  const show = (told) => {
    charts.take(told);
    page.dataset.status = told.scene.status;
    page.dataset.epochs = charts.data.time.length;
    for (const [part, html] of Object.entries(told.parts || {})) {
      const host = document.getElementById(`part-${part}`);
      if (host) host.innerHTML = html;
    }
  };

  const watch = () => {
    const source = new EventSource(`/api/runs/${run}/stream?epochs=${charts.data.time.length}&rollbacks=${charts.scene.rollbacks || 0}`);
    source.addEventListener("news", (event) => { wait = 2000; show(JSON.parse(event.data)); });
    source.addEventListener("end", () => {
      source.close();
      if (!["met", "missed"].includes(page.dataset.status)) later(); // somebody may resume it
    });
    source.addEventListener("error", () => { source.close(); later(); });
  };

  const later = () => {
    wait = Math.min(wait * 1.5, 20000);
    setTimeout(() => { if (document.hidden) document.addEventListener("visibilitychange", watch, { once: true }); else watch(); }, wait);
  };

  fetch(`/api/runs/${run}/series`).then((answer) => answer.json()).then((told) => {
    show(told);
    page.dataset.ready = "yes";
    if (!["met", "missed"].includes(told.scene.status)) watch();
  });
})();
