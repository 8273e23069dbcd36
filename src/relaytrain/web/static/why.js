// Sliders that plan again at once: one question at a time, the latest wins; at rest the ways out are looked for too.
"use strict";
(() => {
  const form = document.getElementById("what-if");
  const place = document.getElementById("plan");
  const took = document.getElementById("took");
  const outputs = Object.fromEntries([...form.querySelectorAll("output")].map((o) => [o.dataset.for, o]));
  let asking = false, waiting = null;

  const say = (name, value) => name === "probability" ? `${+(100 * value).toFixed(1)}%` : `${+Number(value).toPrecision(4)}`;
  const fields = () => [...form.querySelectorAll("input[type=range]")];
  const label = () => fields().forEach((field) => {
    outputs[field.name].textContent = say(field.name, field.value);
    field.setAttribute("aria-valuetext", say(field.name, field.value));
  });

  const ask = async (resting) => {
    if (asking) { waiting = resting || waiting === true; return; }
    asking = true;
    const query = new URLSearchParams({ epoch: form.dataset.epoch, way_out: resting });
    for (const field of fields()) if (field.dataset.moved) query.set(field.name, field.value);
    const began = performance.now();
    try {
      const answer = await fetch(`/api/runs/${form.dataset.run}/replan?${query}`);
      const told = await answer.json();
      if (answer.ok) {
        place.innerHTML = told.html;
        took.textContent = `planned again in ${Math.round(performance.now() - began)} ms`;
        took.dataset.resting = resting;
      } else {
        took.textContent = told.detail;
      }
    } catch {
      took.textContent = "the dashboard does not answer; is it still running?";
    }
    asking = false;
    if (waiting !== null) { const next = waiting; waiting = null; ask(next); }
  };

  form.addEventListener("input", (event) => { event.target.dataset.moved = "yes"; label(); ask(false); });
  form.addEventListener("change", () => ask(true));
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(true); });
  form.querySelector("button.plain").hidden = true;
  label();
})();
