// The regression picture: networks, their bands, the exact answer and the points.

import { choice, group, make, toggle } from "./controls.js";
import {
  axes,
  band,
  begin,
  cross,
  faint,
  inside,
  key,
  label,
  legend,
  line,
  mark,
  onceAFrame,
  palette,
} from "./plot.js";
import { editPoints } from "./pointer.js";
import { fitView, GP_WAYS, round } from "./state.js";

const GP_WORDS = { over: "drawn over", beside: "side by side", off: "hidden" };
const GP_HINT =
  "A Gaussian process: what infinitely many, infinitely wide networks would say by Bayes' rule. " +
  "The closer the networks are to it, the better.";
const HELP =
  "Click to add a point, drag to move it, double-click to delete it. " +
  "Keys: arrows move the cross, Enter adds or lifts a point, N goes to the next, " +
  "Delete removes it.";
const SHADES = [0.34, 0.2, 0.11]; // opacity within 1, 2 and 3 deviations

/** The main picture of the regression tab, for `trainingTab`. */
export function regressionPicture(part, tab, page) {
  const mine = tab.mine;
  const canvas = makeCanvas("regression-plot", "Points, networks and bands. ");
  const beside = makeCanvas("regression-gp", "Points and the exact answer. ");
  const figure = make("figure", {}, canvas, make("figcaption", {}, HELP));
  const second = make(
    "figure",
    {},
    beside,
    make("figcaption", {}, "The exact answer: a Gaussian process."),
  );
  part("pictures").append(figure, second);
  let plot = null,
    secondPlot = null;

  const say = (i, word) =>
    `Point ${i + 1} ${word} at ${mine()
      .points[i].map((v) => label(v))
      .join(", ")}.`;
  const edit = {
    points: () => mine().points,
    add: (x, y) => {
      if (mine().points.length >= page.hello.limits.points) {
        page.say(`There is room for ${page.hello.limits.points} points: delete one first.`);
        return;
      }
      tab.setPoints([...mine().points, [round(x), round(y)]]);
      page.say(say(mine().points.length - 1, "added"));
    },
    move: (i, x, y) => tab.setPoints(mine().points.with(i, [round(x), round(y)])),
    remove: (i) => tab.setPoints(mine().points.toSpliced(i, 1), say(i, "deleted")),
    moved: onceAFrame(() => tab.redraw()),
  };
  const cursor = editPoints(canvas, { ...edit, plot: () => plot });
  const secondCursor = editPoints(beside, { ...edit, plot: () => secondPlot });

  const zoom = (factor) => () => {
    const grow = ([low, high]) => {
      const half = ((high - low) / 2) * factor,
        middle = (low + high) / 2;
      return [round(middle - half), round(middle + half)];
    };
    const { x, y } = mine().view;
    const next = { x: grow(x), y: grow(y) };
    const most = page.hello.limits.coordinate;
    if (next.x[1] - next.x[0] > 0.01 && next.x[0] > -most && next.x[1] < most) look(next);
  };
  const look = (view) => {
    mine().view = view;
    page.send({ type: "view", view: view.x });
    tab.redraw();
  };
  const button = (words, test, click) =>
    make("button", { type: "button", "data-testid": test, click }, words);
  const zooms = make(
    "div",
    { class: "control row zoom" },
    button("Zoom in", "regression-zoom-in", zoom(2 / 3)),
    button("Zoom out", "regression-zoom-out", zoom(1.5)),
    button("Fit", "regression-fit", () => look(fitView(mine().points))),
  );

  const set = (name) => (value) => {
    mine().show[name] = value;
    tab.redraw();
  };
  const switches = {
    members: toggle({
      name: "members",
      label: "Each network",
      test: "regression-show-members",
      changed: set("members"),
      hint: "One line is one possible function.",
    }),
    bands: toggle({
      name: "bands",
      label: "Mean and bands",
      test: "regression-show-bands",
      changed: set("bands"),
      hint: "±1, 2 and 3 deviations of the networks: their uncertainty.",
    }),
    noise: toggle({
      name: "noise",
      label: "Data noise",
      test: "regression-show-noise",
      changed: set("noise"),
      hint: "The amber margin: uncertainty that more data would not remove.",
    }),
  };
  const gp = choice({
    name: "gp",
    label: "Exact answer",
    values: GP_WAYS,
    words: GP_WORDS,
    hints: GP_HINT,
    test: "regression-show-gp",
    changed: (value) => {
      mine().gp = value;
      arrange();
      tab.redraw();
    },
  });
  const arrange = () => {
    second.hidden = mine().gp !== "beside";
    part("pictures").classList.toggle("two", mine().gp === "beside");
  };

  const drawOne = (target, frame, pointer, exactOnly, least = 0) => {
    const colours = palette();
    const surface = begin(target, colours);
    const { context } = surface;
    const { show, view, points } = mine();
    const over = mine().gp === "over" && frame?.gp;
    const tint = exactOnly ? colours.two : colours.one;
    const shown = exactOnly ? frame?.gp : frame;
    const items = legendItems({ show, over, exactOnly, colours, tint });
    const room = { left: 48, top: 4, width: surface.width - 60, colours };
    const top = Math.max(10 + legend(context, items, room), least);
    const made = axes(surface, { ...view, colours, names: ["input x", "output y"], top, left: 52 });
    inside(context, made, () => {
      if (shown && show.bands)
        drawBands(context, made, frame.x, shown, show.noise ? colours.noise : null, tint);
      if (frame && show.members && !exactOnly) {
        const opacity = Math.max(0.25, 0.75 - frame.members.length / 60);
        for (const values of frame.members)
          line(context, made, frame.x, values, { colour: faint(tint, opacity), width: 1 });
      }
      if (shown && show.bands)
        line(context, made, frame.x, shown.mean, { colour: tint, width: 2.5 });
      if (over) drawOutline(context, made, frame.x, frame.gp, colours.two);
      if (pointer.at && !pointer.keys) {
        line(context, made, [pointer.at[0], pointer.at[0]], view.y, {
          colour: faint(colours.soft, 0.5),
          width: 1,
          dash: [2, 3],
        });
      }
      points.forEach(([x, y], i) => {
        const active = i === pointer.held || i === pointer.dragged;
        mark(context, [made.px(x), made.py(y)], {
          size: active ? 8 : 5.5,
          fill: colours.ink,
          edge: colours.paper,
          width: 2,
        });
      });
      if (pointer.at && pointer.keys)
        cross(context, [made.px(pointer.at[0]), made.py(pointer.at[1])], colours.ink);
    });
    if (exactOnly && frame && !frame.gp) {
      context.fillStyle = colours.soft;
      context.textAlign = "center";
      context.fillText(
        "No exact answer for these settings.",
        surface.width / 2,
        surface.height / 2,
      );
    }
    return made;
  };

  const readout = (frame, at) => {
    if (!at || !frame) return "";
    const read = (values) => between(frame.x, values, at[0]);
    const words = ({ mean, epistemic }) => `${label(read(mean))} ± ${label(read(epistemic), 2)}`;
    const exact = frame.gp ? `, exact ${words(frame.gp)}` : "";
    const ours = `At x = ${label(at[0])}: networks ${words(frame)}`;
    return `${ours}${exact} (one deviation, without noise).`;
  };

  return {
    controls: {
      data: [zooms],
      more: [group("Show", ...Object.values(switches).map(({ element }) => element), gp.element)],
    },
    plot: () => plot,
    canvases: () => (mine().gp === "beside" ? [canvas, beside] : [canvas]),
    presetChosen: () => {
      mine().view = fitView(mine().points);
    },
    refresh: () => {
      for (const [name, control] of Object.entries(switches)) control.set(mine().show[name]);
      gp.set(mine().gp);
      arrange();
    },
    numbers: (frame) => ({
      "KL to exact": [
        frame?.kl == null ? "–" : `${label(frame.kl)}`,
        frame && frame.kl == null ? (frame.kl_why ?? "no exact answer") : "nats; 0 is perfect",
      ],
    }),
    draw: (frame) => {
      plot = drawOne(canvas, frame, cursor, false);
      if (mine().gp === "beside")
        secondPlot = drawOne(beside, frame, secondCursor, true, plot.box.top);
      part("readout").textContent = readout(frame, cursor.at ?? secondCursor.at);
    },
  };
}

function makeCanvas(test, words) {
  return make("canvas", {
    "data-testid": test,
    tabindex: "0",
    role: "application",
    "aria-label": words + HELP,
  });
}

function shifted(mean, deviation, k) {
  return mean.map((value, i) => value + k * deviation[i]);
}

function drawBands(context, plot, xs, { mean, epistemic, total }, noise, tint) {
  if (noise) {
    for (const side of [-1, 1]) {
      const inner = shifted(mean, epistemic, 3 * side),
        outer = shifted(mean, total, 3 * side);
      band(context, plot, xs, inner, outer, faint(noise, 0.55));
    }
  }
  for (const k of [3, 2, 1]) {
    band(
      context,
      plot,
      xs,
      shifted(mean, epistemic, -k),
      shifted(mean, epistemic, k),
      faint(tint, SHADES[k - 1]),
    );
  }
}

function drawOutline(context, plot, xs, { mean, epistemic }, colour) {
  line(context, plot, xs, mean, { colour, width: 2, dash: [7, 4] });
  for (const k of [1, 2, 3]) {
    const style = { colour: faint(colour, 1.1 - 0.2 * k), width: 1.25, dash: [4, 3] };
    for (const side of [-k, k]) line(context, plot, xs, shifted(mean, epistemic, side), style);
  }
}

function legendItems({ show, over, exactOnly, colours, tint }) {
  const items = [];
  if (show.members && !exactOnly)
    items.push(key.line("networks", { colour: faint(tint, 0.6), width: 1 }));
  if (show.bands) {
    items.push(key.line(exactOnly ? "exact mean" : "their mean", { colour: tint, width: 2.5 }));
    items.push(key.area("±1, 2, 3 deviations", faint(tint, 0.3)));
    if (show.noise) items.push(key.area("data noise", faint(colours.noise, 0.55)));
  }
  const dashed = { colour: colours.two, dash: [6, 3] };
  if (over) items.push(key.line("exact: mean and ±1, 2, 3", dashed));
  return items;
}

/** The value at x of a function given on even places. */
function between(xs, values, x) {
  const place = ((x - xs[0]) / (xs.at(-1) - xs[0])) * (xs.length - 1);
  const i = Math.min(Math.max(Math.floor(place), 0), xs.length - 2);
  const share = Math.min(Math.max(place - i, 0), 1);
  return values[i] * (1 - share) + values[i + 1] * share;
}
