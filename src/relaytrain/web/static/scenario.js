// Checks and plans without leaving the page.
"use strict";
(() => {
  const form = document.getElementById("scenario");
  const took = document.getElementById("took");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    took.textContent = "planning …";
    const began = performance.now();
    try {
      const answer = await fetch("/api/plan", {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ scenario: form.elements.scenario.value }),
      });
      const told = await answer.json();
      if (answer.ok) document.getElementById("checked").innerHTML = told.html;
      took.textContent = answer.ok ? `in ${Math.round(performance.now() - began)} ms` : told.detail;
    } catch {
      took.textContent = "the dashboard does not answer; is it still running?";
    }
  });
})();
