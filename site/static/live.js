// The live page: sliders, canvases and words around `anchored.js`.

(function () {
  "use strict";

  const { predict, rms } = window.anchored,
    models = window.anchoredModels;
  const part = (id) => document.getElementById(id);
  const short = (value, digits = 3) => Number(value.toPrecision(digits)).toString();
  const percent = (value) => `${Math.round(100 * value)} %`;
  const novelty = (value) =>
    `The novelty is ${short(value)}${value > 1 ? ": unlike the training rows." : "."}`;

  /** Colours of the page's theme, light or dark. */
  function colours() {
    const style = getComputedStyle(document.documentElement);
    const named = (name, other) => style.getPropertyValue(name).trim() || other;
    const dark = document.documentElement.dataset.theme === "dark";
    return {
      text: named("--pst-color-text-base", "#222"),
      soft: named("--pst-color-text-muted", "#777"),
      blue: dark ? "#56b4e9" : "#0072b2",
      orange: dark ? "#e69f00" : "#d55e00",
      green: dark ? "#3fd3a8" : "#009e73",
      pink: dark ? "#f0a6cf" : "#b5487f",
    };
  }

  /** A canvas as sharp as the screen and as wide as its column, with axes in the given range. */
  function surface(canvas, { x, y, left = 44, bottom = 34 }) {
    const width = canvas.clientWidth,
      height = Number(canvas.dataset.height || canvas.getAttribute("height"));
    const ratio = window.devicePixelRatio || 1;
    canvas.dataset.height = height;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const px = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (width - left - 12);
    const py = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0])) * (height - bottom - 12);
    return { context, width, height, px, py, x, y, left, bottom };
  }

  /** Round numbers within a range. */
  function ticks([least, most], about = 6) {
    const raw = (most - least) / about,
      power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((n) => n * power >= raw) * power;
    const found = [];
    for (let value = Math.ceil(least / step) * step; value <= most + 1e-9; value += step)
      found.push(Math.abs(value) < step / 1e6 ? 0 : value);
    return found;
  }

  function axes(plot, names, paint) {
    const { context, width, height, px, py, x, y, left, bottom } = plot;
    context.strokeStyle = paint.soft;
    context.fillStyle = paint.text;
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(left, 8);
    context.lineTo(left, height - bottom);
    context.lineTo(width - 8, height - bottom);
    context.stroke();
    context.textAlign = "center";
    for (const value of ticks(x, Math.max(4, width / 80)))
      context.fillText(short(value), px(value), height - bottom + 15);
    context.fillText(names[0], (left + width) / 2, height - 4);
    if (!names[1]) return;
    context.textAlign = "right";
    for (const value of ticks(y, 5)) context.fillText(short(value), left - 6, py(value) + 4);
    context.textAlign = "left";
    context.fillText(names[1], 4, 12);
  }

  function line(context, points, { colour, width = 2, dash = [], alpha = 1 }) {
    context.save();
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.restore();
  }

  // A curve with its interval

  const CURVE = { x: [-4, 4], y: [-2.6, 2.6] };
  const GRID = Array.from({ length: 161 }, (_, i) => [-4 + i / 20]);

  function drawCurve() {
    const { model, points } = models.curve,
      paint = colours();
    const coverage = Number(part("curve-coverage").value),
      at = Number(part("curve-x").value);
    const found = predict(model, GRID, coverage),
      here = predict(model, [[at]], coverage);
    const plot = surface(part("curve-plot"), CURVE),
      { context, px, py } = plot;
    const path = (name) => GRID.map(([x], i) => [px(x), py(found[name][i])]);
    context.save();
    context.beginPath();
    context.rect(plot.left, 8, plot.width - plot.left - 8, plot.height - plot.bottom - 8);
    context.clip();
    context.fillStyle = paint.blue;
    context.globalAlpha = 0.22;
    context.beginPath();
    for (const [x, y] of [...path("lower"), ...path("upper").reverse()]) context.lineTo(x, y);
    context.fill();
    context.globalAlpha = 1;
    if (part("curve-members").checked)
      model.network.layers[0].weight.forEach((_, j) =>
        line(
          context,
          GRID.map(([x], i) => [px(x), py(found.members[i][j])]),
          { colour: paint.blue, width: 1, alpha: 0.6 },
        ),
      );
    line(context, path("mean"), { colour: paint.blue });
    context.fillStyle = paint.text;
    points[0].forEach((x, i) => {
      context.beginPath();
      context.arc(px(x), py(points[1][i]), 1.8, 0, 7);
      context.fill();
    });
    line(
      context,
      [
        [px(at), py(here.lower[0])],
        [px(at), py(here.upper[0])],
      ],
      { colour: paint.orange, width: 3 },
    );
    context.restore();
    axes(plot, ["x", "y"], paint);
    part("curve-coverage-value").textContent = percent(coverage);
    part("curve-words").textContent =
      `At x = ${at.toFixed(2)} the prediction is ${short(here.mean[0])}. The ${percent(coverage)} ` +
      `interval is ${short(here.lower[0])} to ${short(here.upper[0])}. The epistemic deviation ` +
      `is ${short(here.epistemic_std[0])}, and the deviation of the noise is ` +
      `${short(here.aleatoric_std[0])}. ${novelty(here.novelty[0])}`;
  }

  // One row of a table

  function setUpPatient() {
    const [least, middle, most] = models.patient.reach;
    middle.forEach((value, i) => {
      const input = part(`patient-${i}`),
        room = (most[i] - least[i]) / 2;
      const step = (most[i] - least[i]) / 200;
      Object.assign(input, { min: least[i] - room, max: most[i] + room, step });
      input.value = value;
      input.addEventListener("input", drawPatient);
    });
  }

  function drawPatient() {
    const { model, targets } = models.patient,
      paint = colours();
    const row = [0, 1, 2].map((i) => Number(part(`patient-${i}`).value));
    row.forEach((value, i) => (part(`patient-${i}-value`).textContent = short(value)));
    const plot = surface(part("patient-plot"), {
      x: [Math.min(0, targets[0]), 1.35 * targets[1]],
      y: [0, 1],
      left: 14,
    });
    const { context, px, py } = plot;
    [0.99, 0.9, 0.5].forEach((coverage, i) => {
      const { lower, upper } = predict(model, [row], coverage);
      context.fillStyle = paint.blue;
      context.globalAlpha = 0.25;
      context.fillRect(px(lower[0]), py(0.8 - 0.06 * i), px(upper[0]) - px(lower[0]), 70 - 12 * i);
    });
    context.globalAlpha = 1;
    const found = predict(model, [row], 0.9);
    line(
      context,
      [
        [px(found.mean[0]), py(0.95)],
        [px(found.mean[0]), py(0.02)],
      ],
      { colour: paint.orange, width: 3 },
    );
    axes(plot, ["disease progression after one year", ""], paint);
    part("patient-words").textContent =
      `The prediction is ${short(found.mean[0])}. The 90 % interval is ` +
      `${short(found.lower[0])} to ${short(found.upper[0])}; the bands show 50, 90 and 99 %. ` +
      novelty(found.novelty[0]);
  }

  // Two parameters

  const CASES = {
    typical: { variances: [0.6, 0.6], correlation: 0.8 },
    much: { variances: [0.02, 0.02], correlation: 0 },
    unknown: { variances: [0.02, 100], correlation: 0 },
    twins: { variances: [50, 50], correlation: -0.99 },
  };

  function chooseCase() {
    const { variances, correlation } = CASES[part("rms-case").value];
    part("rms-correlation").value = correlation;
    part("rms-first").value = Math.log10(Math.sqrt(variances[0]));
    part("rms-second").value = Math.log10(Math.sqrt(variances[1]));
    drawRms();
  }

  function ellipse(plot, { mean, cov }, style) {
    const half = (cov[0][0] + cov[1][1]) / 2,
      apart = (cov[0][0] - cov[1][1]) / 2;
    const root = Math.hypot(apart, cov[0][1]),
      turn = Math.atan2(cov[0][1], apart) / 2;
    const [long, wide] = [half + root, Math.max(half - root, 0)].map(Math.sqrt);
    const points = Array.from({ length: 121 }, (_, i) => {
      const angle = (2 * Math.PI * i) / 120,
        u = long * Math.cos(angle),
        v = wide * Math.sin(angle);
      return [
        plot.px(mean[0] + u * Math.cos(turn) - v * Math.sin(turn)),
        plot.py(mean[1] + u * Math.sin(turn) + v * Math.cos(turn)),
      ];
    });
    line(plot.context, points, style);
  }

  function drawRms() {
    const deviations = ["rms-first", "rms-second"].map((id) => 10 ** Number(part(id).value));
    const correlation = Number(part("rms-correlation").value);
    part("rms-correlation-value").textContent = correlation.toFixed(2);
    part("rms-first-value").textContent = short(deviations[0], 2);
    part("rms-second-value").textContent = short(deviations[1], 2);
    const found = rms({
      mean: [1.2, 0.8],
      variances: deviations.map((value) => value ** 2),
      correlation,
      prior_variances: [1, 1],
    });
    const paint = colours(),
      canvas = part("rms-plot");
    const share = (canvas.clientWidth - 56) / (420 - 42);
    const plot = surface(canvas, { x: [-2.4 * share, 2.4 * share], y: [-2.4, 2.4] });
    const { context } = plot;
    context.save();
    context.beginPath();
    context.rect(plot.left, 8, plot.width - plot.left - 8, plot.height - plot.bottom - 8);
    context.clip();
    ellipse(plot, found.prior, { colour: paint.soft, width: 1.5, dash: [2, 3] });
    ellipse(plot, found.likelihood, { colour: paint.green, width: 1.5 });
    ellipse(plot, found.posterior, { colour: paint.blue, width: 3 });
    ellipse(plot, found.anchored, { colour: paint.orange, width: 2.5, dash: [8, 4] });
    ellipse(plot, found.mean_field, { colour: paint.pink, width: 2.5, dash: [2, 3] });
    context.restore();
    axes(plot, ["weight 1", "weight 2"], paint);
    const names = { likelihood: "green", posterior: "blue", anchored: "orange", mean_field: "pink" };
    const labels = { likelihood: "likelihood", posterior: "true posterior", anchored: "RMS", mean_field: "mean-field VI" };
    Object.entries(names).forEach(([name, colour], i) => {
      context.fillStyle = paint[colour];
      context.textAlign = "left";
      context.fillText(labels[name], plot.left + 12, 24 + 16 * i);
    });
    const kept = (other) =>
      [0, 1].map((i) => percent(found[other].cov[i][i] / found.posterior.cov[i][i])).join(" and ");
    part("rms-words").textContent =
      `RMS keeps ${kept("anchored")} of the true variances of the two weights. Mean-field ` +
      `variational inference keeps ${kept("mean_field")}.`;
  }

  function drawAll() {
    drawCurve();
    drawPatient();
    drawRms();
  }

  setUpPatient();
  for (const id of ["curve-x", "curve-coverage", "curve-members"])
    part(id).addEventListener("input", drawCurve);
  part("rms-case").addEventListener("change", chooseCase);
  for (const id of ["rms-correlation", "rms-first", "rms-second"])
    part(id).addEventListener("input", drawRms);
  chooseCase();
  drawAll();
  window.addEventListener("resize", drawAll);
  new MutationObserver(drawAll).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-theme"],
  });
})();
