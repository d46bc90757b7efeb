// What the two learning tabs share: buttons, settings, numbers, loss curves and parameter space.

import { paced } from "./connection.js";
import { choice, group, make, slider } from "./controls.js";
import { axes, begin, ellipse, faint, inside, label, legend, line, key, mark, onceAFrame, palette } from "./plot.js";
import { choicesOf, isCount, rangeOf } from "./state.js";

const METHODS = {
  unconstrained: "Fit the data alone. Nothing holds a network where there are no data, so the bands there mean little.",
  regularised: "Every network is pulled to zero, so all become alike: the bands are too narrow away from data.",
  anchored: "Each network is pulled to its own draw from the prior. Without data they disagree, as Bayes' rule says they should.",
  rms: "Anchors, and fresh noise on each network's targets: exact for linear models.",
};
const ACTIVATIONS = {
  relu: "Straight pieces: the bands open in lines away from the data.",
  leaky_relu: "Like ReLU with a small slope below zero.",
  erf: "Smooth and levelling off: the bands stay bounded far away.",
  tanh: "Much like ERF, but its infinite-width limit has no closed form here: no exact answer is drawn.",
};
const ACTIVATION_WORDS = { relu: "ReLU", leaky_relu: "leaky ReLU", erf: "ERF", tanh: "tanh" };
const SLIDERS = [
  ["n_members", "Networks", { whole: true }, "How many are trained. More give a steadier spread; five to ten often suffice."],
  ["width", "Width", { whole: true, log: true }, "Hidden nodes of each network. The wider, the closer to the exact answer."],
  ["first_var", "Prior variance", { log: true }, "Of the first layer's weights: how steep and wiggly functions may be before any data."],
  ["noise_var", "Data noise", { log: true, live: true }, "Variance of the noise on y: how closely points are followed, and the amber margin."],
  ["learning_rate", "Learning rate", { log: true, live: true }, "Length of a training step. Too long and it jumps about, too short and it crawls."],
];
const STEPS = 100;
const KEPT = 300; // places of a loss curve

/**
 * Fill `section` with one learning tab. `page` offers send, state, hello and say;
 * `makePicture(part, tab, page)` gives the main picture: draw(frame), canvases, controls and numbers(frame).
 */
export function trainingTab(section, problem, page, makePicture) {
  section.append(document.getElementById("training").content.cloneNode(true));
  const part = (name) => section.querySelector(`[data-part="${name}"]`);
  section.querySelectorAll("[data-part]").forEach((element) => {
    element.dataset.testid = `${problem}-${element.dataset.part}`;
  });
  const mine = () => page.state[problem];
  const send = (message) => {
    if (page.state.tab === problem) page.send(message);
  };
  let frame = null, status = "", curves = emptyCurves(), wanted = false;
  const rate = { value: 0, frame: 0, at: 0 };

  const tab = {
    section,
    mine,
    frame: () => frame,
    isRunning: () => wanted,
    /** Ask the server to begin anew with what the page has. */
    open: () => {
      const { settings, points, seed, view, pair } = mine();
      curves = emptyCurves();
      send({ type: "open", problem, settings, points, seed, ...(view ? { view: view.x } : {}) });
      if (pair) send({ type: "weights", pair });
      if (wanted) send({ type: "run" });
      tab.refresh();
    },
    /** Show what the state says: after a link or a preset. */
    refresh: () => {
      for (const [name, control] of Object.entries(settings)) control.set(mine().settings[name]);
      preset.set(mine().preset ?? "");
      picture.refresh();
      redraw();
    },
    heard: (next) => {
      wanted = next.running;
      status = next.status;
      if (status !== "compiling") {
        frame = next;
        showPair(next.weights.pair);
        follow(curves, next);
      }
      redraw();
    },
    setPoints: (points, words = "") => {
      mine().points = points;
      mine().preset = null;
      preset.set("");
      sendPoints();
      if (words) page.say(words);
        redraw();
    },
    redraw: () => redraw(),
    plot: () => picture.plot(),
    pictures: () => picture.canvases(),
  };

  const sendPoints = paced(() => send({ type: "points", points: mine().points }));
  let changes = {};
  const sendSettings = paced(() => {
    send({ type: "settings", settings: changes });
    changes = {};
  });
  const draw = () => {
    if (section.hidden) return;
    picture.draw(frame);
    drawLoss(part("loss"), curves);
    drawWeights(part("weights"), frame, mine().settings.method);
    writeNumbers();
    part("run").classList.toggle("running", wanted);
    part("run").querySelector("b").textContent = wanted ? "Pause" : "Start";
    part("run").querySelector("small").textContent = wanted ? "hold training" : "train the networks";
  };
  const redraw = onceAFrame(draw);

  const order = (type, extra = {}) => () => send({ type, ...extra });
  part("run").addEventListener("click", () => send({ type: wanted ? "pause" : "run" }));
  part("step").addEventListener("click", () => {
    if (wanted) send({ type: "pause" });
    send({ type: "step", steps: STEPS });
  });
  part("anchors").addEventListener("click", order("anchors"));
  part("reset").addEventListener("click", order("reset"));
  part("clear").addEventListener("click", () => tab.setPoints([], "All points cleared: this is the prior."));

  const names = Object.keys(mine().settings);
  const change = (name) => (value) => {
    mine().settings[name] = value;
    changes[name] = value;
    sendSettings();
    redraw();
  };
  const choices = choicesOf(page.hello, problem);
  const settings = {
    method: choice({
      name: "method", label: "Loss", values: choices.method, hints: METHODS,
      test: `${problem}-method`, changed: change("method"),
    }),
    activation: choice({
      name: "activation", label: "Activation", values: choices.activation, words: ACTIVATION_WORDS,
      hints: ACTIVATIONS, test: `${problem}-activation`, changed: change("activation"),
    }),
  };
  for (const [name, title, options, hint] of SLIDERS.filter(([name]) => names.includes(name))) {
    settings[name] = slider({
      name, label: title, hint, ...options, range: rangeOf(page.hello, name),
      test: `${problem}-${name}`, changed: change(name), words: isCount(name) ? String : label,
    });
  }

  const presets = page.hello.presets[problem];
  const steered = presets.flatMap((one) => Object.keys(one.settings ?? {}));
  const usual = Object.fromEntries(steered.map((name) => [name, page.hello.defaults[problem][name]]));
  const preset = choice({
    name: "preset", label: "Example", test: `${problem}-preset`,
    values: ["", ...presets.map(({ name }) => name)],
    words: { "": "your own points", ...Object.fromEntries(presets.map(({ name, title }) => [name, title])) },
    hints: { "": "Points you have placed.", ...Object.fromEntries(presets.map(({ name, text }) => [name, text])) },
    changed: (name) => {
      const found = presets.find((one) => one.name === name);
      if (!found) return;
      mine().points = found.points.map((point) => [...point]);
      mine().settings = { ...mine().settings, ...usual, ...found.settings };
      mine().preset = name;
      picture.presetChosen();
        tab.open();
    },
  });

  const pair = () => {
    if (!frame) return;
    const last = frame.weights.n_parameters - 1;
    const numbers = ["first", "second"].map((name) => {
      const value = Math.min(Math.max(Math.round(Number(part(name).value)) || 0, 0), last);
      part(name).value = value;
      return value;
    });
    mine().pair = numbers;
    send({ type: "weights", pair: numbers });
  };
  const showPair = (numbers) => {
    mine().pair = numbers;
    ["first", "second"].forEach((name, k) => {
      if (document.activeElement !== part(name)) part(name).value = numbers[k];
    });
  };
  part("first").addEventListener("change", pair);
  part("second").addEventListener("change", pair);

  const picture = makePicture(part, tab, page);
  part("controls").append(
    group("Data", preset.element, ...picture.controls.data),
    ...picture.controls.more,
    group("Networks", ...Object.values(settings).map(({ element }) => element)),
  );
  part("controls").addEventListener("submit", (event) => event.preventDefault());

  const tiles = {};
  const writeNumbers = () => {
    const seconds = (performance.now() - rate.at) / 1000;
    if (frame && seconds > 0.5) {
      const drawn = (frame.frame - rate.frame) / seconds;
      Object.assign(rate, { value: drawn, frame: frame.frame, at: performance.now() });
    }
    const loss = frame ? frame.loss.reduce((a, b) => a + b, 0) / frame.loss.length : NaN;
    const shown = {
      Step: [frame ? frame.step.toLocaleString("en") : "–", statusWords(frame, status)],
      ...picture.numbers(frame),
      "Mean loss": [label(loss), "what is minimised"],
      Points: [String(mine().points.length), `of at most ${page.hello.limits.points}`],
      "Pictures a second": [wanted ? rate.value.toFixed(0) : "–", wanted ? "while training" : "paused"],
    };
    for (const [name, [value, note]] of Object.entries(shown)) {
      tiles[name] ??= tile(part("numbers"), name, `${problem}-number-${slug(name)}`);
      tiles[name].value.textContent = value;
      tiles[name].note.textContent = note;
    }
  };

  return tab;
}

function slug(name) {
  return name.toLowerCase().replaceAll(" ", "-");
}

function tile(list, name, test) {
  const value = make("span", { "data-testid": test }), note = make("small");
  list.append(make("div", {}, make("dt", {}, name), make("dd", {}, value, note)));
  return { value, note };
}

function statusWords(frame, status) {
  if (status === "compiling") return "preparing this size …";
  if (!frame) return "waiting for the server";
  if (status === "diverged") return "diverged: lower the rate, reset";
  return "of training";
}

function emptyCurves() {
  return { steps: [], losses: [], every: 1, seen: 0 };
}

/** Add a frame to the loss curves; when they grow long, keep every second place. */
function follow(curves, frame) {
  const last = curves.steps.at(-1);
  if (frame.loss.length !== curves.losses.length || frame.step < last) {
    Object.assign(curves, emptyCurves(), { losses: frame.loss.map(() => []) });
  } else if (frame.step === last) return;
  curves.seen += 1;
  if (curves.seen % curves.every) return;
  curves.steps.push(frame.step);
  frame.loss.forEach((value, i) => curves.losses[i].push(value));
  if (curves.steps.length <= KEPT) return;
  const odd = (_, i) => i % 2 === 0;
  curves.steps = curves.steps.filter(odd);
  curves.losses = curves.losses.map((values) => values.filter(odd));
  curves.every *= 2;
}

/** Losses on a scale that is even near zero and logarithmic far from it. */
function drawLoss(canvas, { steps, losses }) {
  const colours = palette();
  const surface = begin(canvas, colours);
  const all = losses.flat().filter(Number.isFinite);
  const low = Math.min(0, ...all), high = Math.max(1, ...all);
  const bend = (value) => Math.asinh(2 * value);
  const far = [1, 10, 100, 1e3, 1e4, 1e5, 1e6];
  const yTicks = [...far.map((v) => -v), 0, ...far].filter((v) => v >= low * 1.1 && v <= high * 1.1);
  const plot = axes(surface, {
    x: [steps[0] ?? 0, Math.max(steps.at(-1) ?? 0, (steps[0] ?? 0) + 100)], y: [low * 1.1, high * 1.1],
    colours, names: ["training steps", ""], scale: bend, yTicks: thin(yTicks), left: 50,
  });
  inside(surface.context, plot, () => {
    for (const values of losses) line(surface.context, plot, steps, values, { colour: faint(colours.one, 0.55) });
  });
}

/** Every second tick if they are many, but always zero. */
function thin(ticks) {
  const zero = ticks.indexOf(0);
  return ticks.length > 6 ? ticks.filter((_, i) => (i - zero) % 2 === 0) : ticks;
}

/** Two weights of each network, joined to their anchors. */
function drawWeights(canvas, frame, method) {
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
  if (anchored) items.push(key.mark("anchor", { shape: "diamond", size: 4, edge: colours.two, fill: colours.paper }));
  const top = 6 + legend(context, items, { left: 50, top: 2, width: surface.width - 60, colours });
  const plot = axes(surface, { x: span(0), y: span(1), colours, names: weights?.names ?? ["", ""], top, left: 56 });
  if (!weights) return;
  inside(context, plot, () => {
    const cov = [[spread[0] ** 2, 0], [0, spread[1] ** 2]];
    for (const k of [1, 2]) ellipse(context, plot, [0, 0], cov, k, { colour: colours.soft, width: 1, dash: [3, 4] });
    const pixels = ([x, y]) => [plot.px(x), plot.py(y)];
    if (anchored) {
      weights.values.forEach((place, i) => {
        const ends = [place, weights.anchors[i]];
        line(context, plot, ends.map((p) => p[0]), ends.map((p) => p[1]), { colour: faint(colours.soft, 0.6), width: 1 });
      });
      for (const place of weights.anchors) {
        mark(context, pixels(place), { shape: "diamond", size: 4, edge: colours.two, fill: colours.paper });
      }
    }
    for (const place of known(weights.values)) mark(context, pixels(place), { size: 4.5, fill: colours.one, edge: colours.paper, width: 1 });
  });
}
