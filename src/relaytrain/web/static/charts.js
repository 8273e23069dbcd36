// The loss and energy charts of a run: what was measured, the band promised before each epoch, the plan from here on.
"use strict";
window.RunCharts = class {
  constructor(loss, energy) {
    this.lossHost = loss;
    this.energyHost = energy;
    this.data = { epoch: [], time: [], loss: [], expected: [], promised: [], energy: [], broken: [] };
    this.ahead = { time: [], expected: [], promised: [], energy: [] };
    this.scene = { legs: [], undone: [] };
    addEventListener("themechange", () => this.draw(true));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(true));
    new ResizeObserver(() => this.resize()).observe(loss.parentElement);
  }

  take(told) {
    const { columns } = told;
    for (const key of Object.keys(this.data)) {
      const kept = key === "broken" ? this.data.broken.filter((epoch) => epoch <= columns.since) : this.data[key].slice(0, columns.since);
      this.data[key] = kept.concat(columns[key]);
    }
    this.ahead = told.ahead;
    this.scene = told.scene;
    this.draw(false);
  }

  colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }

  // light-dark() is only resolved where a colour is used
  resolved(name) {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  series() {
    const d = this.data, a = this.ahead;
    const none = (n) => new Array(n).fill(null);
    const now = d.time.length, later = a.time.length;
    const last = now ? d.loss[now - 1] : this.scene.start;
    const marks = none(now + later), broken = new Set(d.broken);
    d.epoch.forEach((epoch, i) => { if (broken.has(epoch)) marks[i] = d.loss[i]; });
    const plan = none(now).concat(a.expected);
    if (now && later) plan[now - 1] = last;
    const spent = now ? d.energy[now - 1] : 0;
    const toCome = none(now).concat(a.energy);
    if (now && later) toCome[now - 1] = spent;
    const first = this.scene.start === null || this.scene.start === undefined ? [] : [this.scene.start];
    const lead = first.length ? [null] : [];
    return {
      loss: [
        (first.length ? [0] : []).concat(d.time, a.time),
        lead.concat(d.promised, a.promised),
        lead.concat(d.expected, a.expected),
        first.concat(d.loss, none(later)),
        lead.concat(plan),
        lead.concat(marks),
      ],
      energy: [[0].concat(d.time, a.time), [0].concat(d.energy, none(later)), [null].concat(toCome)],
    };
  }

  options(height, series, extra) {
    const ink = this.resolved("ink"), muted = this.resolved("muted"), faint = this.resolved("faint");
    const axis = { stroke: muted, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint }, font: "12px system-ui, sans-serif" };
    const seconds = this.scene.unit === "s";
    const time = (value) => !seconds ? `${value}` : value < 120 ? `${+value.toPrecision(3)}s` : value < 7200 ? `${Math.floor(value / 60)}m${String(Math.round(value % 60)).padStart(2, "0")}` : `${Math.floor(value / 3600)}h${String(Math.round(value % 3600 / 60)).padStart(2, "0")}`;
    return {
      width: this.width(), height, scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(high, this.scene.target || 0, 1e-9) * 1.06] } },
      legend: { show: false }, cursor: { drag: { x: true, y: false }, focus: { prox: 24 } }, padding: [10, 14, 0, 0],
      axes: [{ ...axis, values: (u, splits) => splits.map(time) }, { ...axis, size: 64, ...extra.y }],
      series: [{}].concat(series), bands: extra.bands || [], hooks: { drawClear: [(u) => this.legs(u)], draw: [(u) => this.lines(u, ink, extra.target)] },
    };
  }

  legs(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const leg of this.scene.legs) {
      const from = u.valToPos(leg.from, "x", true), to = u.valToPos(leg.to, "x", true);
      ctx.fillStyle = leg.colour;
      ctx.globalAlpha = 0.09;
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      ctx.globalAlpha = 0.9;
      ctx.fillRect(from, bbox.top, to - from - 1, 4 * devicePixelRatio);
    }
    ctx.restore();
  }

  lines(u, ink, target) {
    const { ctx, bbox } = u, dpr = devicePixelRatio;
    ctx.save();
    ctx.font = `${12 * dpr}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.setLineDash([7 * dpr, 4 * dpr]);
    ctx.lineWidth = 1.6 * dpr;
    if (target && this.scene.target !== null) {
      const at = u.valToPos(this.scene.target, "y", true);
      ctx.strokeStyle = ctx.fillStyle = this.resolved("good-ink");
      ctx.beginPath(); ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); ctx.stroke();
      ctx.fillText(`target ${this.scene.target}`, bbox.left + 6 * dpr, at - 6 * dpr);
    }
    const deadline = this.scene.deadline, scale = u.scales.x;
    if (deadline !== null && deadline <= scale.max) {
      const at = u.valToPos(deadline, "x", true);
      ctx.strokeStyle = this.resolved("bad-ink");
      ctx.beginPath(); ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); ctx.stroke();
    }
    if (target) {
      ctx.setLineDash([]);
      ctx.strokeStyle = this.resolved("bad-ink");
      for (const [time, loss] of this.scene.undone) {
        ctx.beginPath(); ctx.arc(u.valToPos(time, "x", true), u.valToPos(loss, "y", true), 3 * dpr, 0, 7); ctx.stroke();
      }
    }
    ctx.restore();
  }

  width() { return Math.max(280, this.lossHost.parentElement.clientWidth - 44); }

  build() {
    this.lossHost.replaceChildren();
    this.energyHost.replaceChildren();
    const ink = this.resolved("ink"), band = this.resolved("band"), edge = this.resolved("band-edge"), ghost = this.resolved("ghost"), bad = this.resolved("bad-ink");
    const faded = band.replace("rgb(", "rgba(").replace(")", ", 0.42)");
    const data = this.series(), many = data.loss[0].length > 400;
    this.loss = new uPlot(this.options(320, [
      { stroke: edge, width: 1, points: { show: false } },
      { stroke: "transparent", width: 0, points: { show: false } },
      { stroke: ink, width: 1.8, points: { show: !many, size: 5, fill: ink } },
      { stroke: ghost, width: 1.5, dash: [5, 4], points: { show: false } },
      { stroke: "transparent", width: 0, points: { show: true, size: 10, stroke: bad, fill: "transparent", width: 2 } },
    ], { bands: [{ series: [1, 2], fill: faded }], target: true, y: {} }), data.loss, this.lossHost);
    const unit = this.scene.energy_unit;
    const joules = (value) => unit !== "J" ? `${value}` : value >= 1e6 ? `${value / 1e6} MJ` : value >= 1e3 ? `${value / 1e3} kJ` : `${value} J`;
    this.energy = new uPlot({ ...this.options(130, [
      { stroke: ink, width: 1.8, points: { show: false }, fill: faded },
      { stroke: ghost, width: 1.5, dash: [5, 4], points: { show: false } },
    ], { target: false, y: { values: (u, splits) => splits.map(joules) } }), scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(high, 1e-9) * 1.1] } } }, data.energy, this.energyHost);
  }

  draw(anew) {
    if (!this.scene.status) return;
    if (!this.loss || anew) { this.build(); return; }
    const data = this.series();
    this.loss.setData(data.loss);
    this.energy.setData(data.energy);
  }

  resize() {
    if (!this.loss) return;
    this.loss.setSize({ width: this.width(), height: 320 });
    this.energy.setSize({ width: this.width(), height: 130 });
  }
};
