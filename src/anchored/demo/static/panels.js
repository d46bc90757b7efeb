// The small pictures and numbers under the main picture of a learning tab.

import { make } from "./controls.js";
import {
  axes,
  begin,
  ellipse,
  faint,
  inside,
  key,
  label,
  legend,
  line,
  mark,
  palette,
} from "./plot.js";

const KEPT = 300; // places of a loss curve

/** Curves of each network's loss: `add(frame)`, `clear()` and `draw()`. */
export function lossCurves(canvas) {
  let steps, losses, every, seen;
  const clear = (n = 0) => {
    [steps, losses, every, seen] = [[], Array.from({ length: n }, () => []), 1, 0];
  };
  const add = (frame) => {
    const last = steps.at(-1);
    if (frame.loss.length !== losses.length || frame.step < last) clear(frame.loss.length);
    else if (frame.step === last) return;
    seen += 1;
    if (seen % every) return;
    steps.push(frame.step);
    frame.loss.forEach((value, i) => losses[i].push(value));
    if (steps.length <= KEPT) return;
    const even = (_, i) => i % 2 === 0; // long curves keep every second place
    steps = steps.filter(even);
    losses = losses.map((values) => values.filter(even));
    every *= 2;
  };
  clear();
  return { add, clear, draw: () => drawLoss(canvas, steps, losses) };
}

/** Tiles of a number and a remark; the answer writes them from `{name: [value, remark]}`. */
export function numberTiles(list, problem) {
  const tiles = {};
  const tile = (name) => {
    const test = `${problem}-number-${name.toLowerCase().replaceAll(" ", "-")}`;
    const value = make("span", { "data-testid": test }),
      remark = make("small");
    list.append(make("div", {}, make("dt", {}, name), make("dd", {}, value, remark)));
    return { value, remark };
  };
  return (shown) => {
    for (const [name, [value, remark]] of Object.entries(shown)) {
      tiles[name] ??= tile(name);
      tiles[name].value.textContent = value;
      tiles[name].remark.textContent = remark;
    }
  };
}

/** Pictures a second, from the numbers of frames. */
export function frameRate() {
  let value = 0,
    frame = 0,
    at = 0;
  return (now) => {
    const seconds = (performance.now() - at) / 1000;
    if (seconds > 0.5) {
      value = Math.max(now - frame, 0) / seconds;
      [frame, at] = [now, performance.now()];
    }
    return value;
  };
}

/** Losses on a scale that is even near zero and logarithmic far from it. */
function drawLoss(canvas, steps, losses) {
  const colours = palette();
  const surface = begin(canvas, colours);
  const all = losses.flat().filter(Number.isFinite);
  const low = Math.min(0, ...all),
    high = Math.max(1, ...all);
  const bend = (value) => Math.asinh(2 * value);
  const far = [1, 10, 100, 1e3, 1e4, 1e5, 1e6];
  const yTicks = [...far.map((v) => -v), 0, ...far].filter(
    (v) => v >= low * 1.1 && v <= high * 1.1,
  );
  const plot = axes(surface, {
    x: [steps[0] ?? 0, Math.max(steps.at(-1) ?? 0, (steps[0] ?? 0) + 100)],
    y: [low * 1.1, high * 1.1],
    colours,
    names: ["training steps", ""],
    scale: bend,
    yTicks: thin(yTicks),
    left: 50,
  });
  inside(surface.context, plot, () => {
    for (const values of losses)
      line(surface.context, plot, steps, values, { colour: faint(colours.one, 0.55) });
  });
}

/** Every second tick if they are many, but always zero. */
function thin(ticks) {
  const zero = ticks.indexOf(0);
  return ticks.length > 6 ? ticks.filter((_, i) => (i - zero) % 2 === 0) : ticks;
}

/** Two weights of each network, joined to their anchors. */
export function drawWeights(canvas, frame, method) {
  const colours = palette();
  const surface = begin(canvas, colours);
  const { context } = surface;
  const weights = frame?.weights;
  const known = (places) => places.filter((place) => place.every(Number.isFinite));
  const anchored = method === "anchored" || method === "rms";
  const spread = weights?.prior_std ?? [1, 1];
  const shown = weights ? known([...weights.values, ...(anchored ? weights.anchors : [])]) : [];
  const span = (k) => {
    const reach = 1.08 * Math.max(2.2 * spread[k], ...shown.map((place) => Math.abs(place[k])));
    return [-reach, reach];
  };
  const items = [key.mark("network", { size: 4.5, fill: colours.one })];
  if (anchored)
    items.push(
      key.mark("anchor", { shape: "diamond", size: 4, edge: colours.two, fill: colours.paper }),
    );
  const top = 6 + legend(context, items, { left: 50, top: 2, width: surface.width - 60, colours });
  const plot = axes(surface, {
    x: span(0),
    y: span(1),
    colours,
    names: weights?.names ?? ["", ""],
    top,
    left: 56,
  });
  if (!weights) return;
  inside(context, plot, () => {
    const cov = [
      [spread[0] ** 2, 0],
      [0, spread[1] ** 2],
    ];
    for (const k of [1, 2])
      ellipse(context, plot, [0, 0], cov, k, { colour: colours.soft, width: 1, dash: [3, 4] });
    const pixels = ([x, y]) => [plot.px(x), plot.py(y)];
    if (anchored) {
      weights.values.forEach((place, i) => {
        const ends = [place, weights.anchors[i]];
        line(
          context,
          plot,
          ends.map((p) => p[0]),
          ends.map((p) => p[1]),
          { colour: faint(colours.soft, 0.6), width: 1 },
        );
      });
      for (const place of weights.anchors) {
        mark(context, pixels(place), {
          shape: "diamond",
          size: 4,
          edge: colours.two,
          fill: colours.paper,
        });
      }
    }
    for (const place of known(weights.values))
      mark(context, pixels(place), { size: 4.5, fill: colours.one, edge: colours.paper, width: 1 });
  });
}
