// The list of runs keeps itself fresh, and filters as one types.
"use strict";
(() => {
  const field = document.querySelector("input[type=search]");
  const table = document.getElementById("runs");
  if (!table) return;
  const rows = () => [...table.tBodies[0].rows];
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows()) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  };
  field.addEventListener("input", filter);
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
      if (!fresh) return;
      const known = new Map(rows().map((row) => [row.dataset.run, row]));
      const body = table.tBodies[0];
      let place = 0;
      for (const row of [...fresh.tBodies[0].rows]) {
        const old = known.get(row.dataset.run);
        if (old) row.querySelector("input").checked = old.querySelector("input").checked;
        const same = old && old.innerHTML === row.innerHTML;
        const now = same ? old : document.importNode(row, true);
        if (old && !same) { const had = old.contains(document.activeElement); old.replaceWith(now); if (had) now.querySelector("a").focus(); }
        if (body.rows[place] !== now) body.insertBefore(now, body.rows[place] || null);
        place += 1;
      }
      while (body.rows.length > place) body.rows[place].remove();
      filter();
    } catch { /* the next time, perhaps */ }
  };
  setInterval(refresh, 3000);
})();
