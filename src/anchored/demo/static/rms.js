// The third tab: randomised MAP sampling with two weights, beside the truth and mean-field VI.

import { paced } from "./connection.js";
import { group, make, slider } from "./controls.js";
import {
  axes,
  begin,
  ellipse,
  faint,
  inside,
  key,
  label,
  legend,
  onceAFrame,
  palette,
} from "./plot.js";
import { RMS_LIMITS, round } from "./state.js";

const REACH = [-2.6, 2.6];
const ROWS = [
  ["prior", "Prior"],
  ["likelihood", "Likelihood"],
  ["posterior", "True posterior"],
  ["anchored", "RMS"],
  ["mean_field", "Mean-field VI"],
];
const EXAMPLES = {
  Typical: {
    mean: [1.2, 0.8],
    variances: [0.6, 0.6],
    correlation: 0.8,
    prior_variances: [1, 1],
    text: "The data inform both weights: RMS loses some variance.",
  },
  "Much data": {
    mean: [1.2, 0.8],
    variances: [0.02, 0.02],
    correlation: 0,
    prior_variances: [1, 1],
    text: "The data fix both weights: RMS is too sure, but there is little variance to lose.",
  },
  "One unknown": {
    mean: [1.2, 0.8],
    variances: [0.02, 100],
    correlation: 0,
    prior_variances: [1, 1],
    text: "The data say nothing about weight 2, as happens far from all points. RMS is right there.",
  },
  Twins: {
    mean: [1.2, 0.8],
    variances: [50, 50],
    correlation: -0.999,
    prior_variances: [1, 1],
    text: "The data fix the sum of the weights, not each one: RMS keeps the ridge, mean-field VI cannot.",
  },
};

/** The tab; `page` offers send, state and say. */
export function rmsTab(section, page) {
  const canvas = section.querySelector("#rms-plot");
  const mine = () => page.state.rms;
  let answer = null,
    plot = null,
    dragging = null;

  const ask = paced(() => page.send({ type: "rms", ...mine() }));
  const change = (values) => {
    Object.assign(mine(), values);
    ask();
    redraw();
  };

  const deviation = (name, k, title, hint) =>
    slider({
      name: `${name}-${k}`,
      label: title,
      hint,
      range: RMS_LIMITS.deviation,
      log: true,
      live: true,
      words: label,
      test: `rms-${name}-${k}`,
      changed: (value) => change({ [name]: mine()[name].with(k, round(value * value)) }),
    });
  const controls = {
    correlation: slider({
      name: "correlation",
      label: "Correlation",
      range: RMS_LIMITS.correlation,
      live: true,
      words: label,
      hint: "Data often inform only a combination of two weights.",
      test: "rms-correlation",
      changed: (correlation) => change({ correlation }),
    }),
    first: deviation(
      "variances",
      0,
      "Width 1",
      "Deviation of the likelihood for weight 1; small means that the data fix it.",
    ),
    second: deviation("variances", 1, "Width 2", "The same for weight 2."),
    priorFirst: deviation(
      "prior_variances",
      0,
      "Prior width 1",
      "How large weight 1 may be before any data.",
    ),
    priorSecond: deviation("prior_variances", 1, "Prior width 2", "The same for weight 2."),
  };
  const note = make("p", { class: "hint" }, "Four cases worth a look.");
  const examples = Object.entries(EXAMPLES).map(([name, { text, ...values }]) =>
    make(
      "button",
      {
        type: "button",
        "data-testid": `rms-example-${name.toLowerCase().replace(" ", "-")}`,
        click: () => {
          change(structuredClone(values));
          note.textContent = text;
          refresh();
        },
      },
      name,
    ),
  );
  section
    .querySelector("#rms-controls")
    .append(
      group("Examples", make("div", { class: "grid" }, ...examples), note),
      group(
        "Likelihood",
        controls.correlation.element,
        controls.first.element,
        controls.second.element,
      ),
      group("Prior", controls.priorFirst.element, controls.priorSecond.element),
    );
  section
    .querySelector("#rms-controls")
    .addEventListener("submit", (event) => event.preventDefault());

  const limit = (value) => round(Math.min(Math.max(value, 0.95 * REACH[0]), 0.95 * REACH[1]));
  const place = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [plot.ux(event.clientX - frame.left), plot.uy(event.clientY - frame.top)];
  };
  const within = ([x, y]) => {
    const { mean, variances, correlation } = mine();
    const u = (x - mean[0]) / Math.sqrt(variances[0]),
      v = (y - mean[1]) / Math.sqrt(variances[1]);
    const far = (u * u - 2 * correlation * u * v + v * v) / (1 - correlation ** 2);
    return far <= 1.2 || Math.hypot(x - mean[0], y - mean[1]) < 0.35;
  };
  canvas.addEventListener(
    "touchstart",
    (event) => {
      if (plot && within(place(event.touches[0]))) event.preventDefault();
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (!plot || event.button !== 0 || !within(place(event))) return;
    const [x, y] = place(event);
    dragging = [mine().mean[0] - x, mine().mean[1] - y];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!plot) return;
    const [x, y] = place(event);
    canvas.style.cursor = dragging ? "grabbing" : within([x, y]) ? "grab" : "default";
    if (dragging) change({ mean: [limit(x + dragging[0]), limit(y + dragging[1])] });
  });
  const drop = () => {
    dragging = null;
  };
  canvas.addEventListener("pointerup", drop);
  canvas.addEventListener("pointercancel", drop);
  canvas.addEventListener("keydown", (event) => {
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[
      event.key
    ];
    if (!arrow || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const step = event.shiftKey ? 0.5 : 0.1;
    change({ mean: mine().mean.map((value, k) => limit(value + step * arrow[k])) });
  });

  const rows = ROWS.map(([name, title]) => {
    const cells = [1, 2, 3].map((k) =>
      make("td", { "data-testid": `rms-${name}-${["var1", "var2", "cor"][k - 1]}` }, "–"),
    );
    section
      .querySelector("#rms-rows")
      .append(
        make(
          "tr",
          {},
          make("th", { scope: "row" }, make("i", { class: `swatch ${name}` }), title),
          ...cells,
        ),
      );
    return { name, cells };
  });

  const draw = () => {
    if (section.hidden) return;
    const colours = palette();
    const surface = begin(canvas, colours);
    const { context } = surface;
    const styles = {
      prior: { colour: colours.soft, width: 1.25, dash: [2, 3] },
      likelihood: { colour: colours.three, fill: faint(colours.three, 0.12), width: 1.75 },
      posterior: { colour: colours.one, fill: faint(colours.one, 0.3), width: 2.5 },
      anchored: { colour: colours.two, width: 2.5, dash: [8, 4] },
      mean_field: { colour: colours.four, width: 2.5, dash: [2, 3] },
    };
    const items = ROWS.map(([name, title]) => key.line(title, styles[name]));
    const top =
      10 + legend(context, items, { left: 48, top: 4, width: surface.width - 60, colours });
    plot = axes(surface, {
      ...window2d(surface, top),
      colours,
      names: ["weight 1", "weight 2"],
      top,
      left: 52,
    });
    if (!answer) return;
    inside(context, plot, () => {
      for (const [name] of ROWS)
        ellipse(context, plot, answer[name].mean, answer[name].cov, 1, styles[name]);
    });
  };
  const redraw = onceAFrame(draw);

  /** Axes with equal units, REACH up and down. */
  const window2d = ({ width, height }, top) => {
    const share = (width - 64) / (height - top - 38);
    return { y: REACH, x: REACH.map((value) => value * share) };
  };

  const write = () => {
    for (const { name, cells } of rows) {
      const { variances, correlation } = answer[name];
      [...variances, correlation].forEach((value, k) => {
        cells[k].textContent = label(value);
      });
    }
    section.querySelector("#rms-verdict").textContent = verdict(answer);
  };

  const refresh = () => {
    controls.correlation.set(mine().correlation);
    controls.first.set(Math.sqrt(mine().variances[0]));
    controls.second.set(Math.sqrt(mine().variances[1]));
    controls.priorFirst.set(Math.sqrt(mine().prior_variances[0]));
    controls.priorSecond.set(Math.sqrt(mine().prior_variances[1]));
    redraw();
  };

  return {
    open: () => {
      refresh();
      ask();
    },
    isRunning: () => false,
    heard: (message) => {
      answer = message;
      write();
      redraw();
    },
    frame: () => answer,
    plot: () => plot,
    redraw,
    pictures: () => [canvas],
  };
}

/** In one sentence, what RMS keeps of the truth and what mean-field VI does. */
function verdict({ posterior, anchored, mean_field: field }) {
  const kept = (other) =>
    posterior.variances.map((truth, k) => Math.round((100 * other.variances[k]) / truth));
  const [ours, theirs] = [kept(anchored), kept(field)];
  const c = (one) => label(one.correlation, 2);
  return (
    `RMS keeps ${ours[0]} % and ${ours[1]} % of the true variances, ` +
    `mean-field VI ${theirs[0]} % and ${theirs[1]} %. ` +
    `True correlation ${c(posterior)}, RMS ${c(anchored)}, mean-field VI ${c(field)}.`
  );
}
