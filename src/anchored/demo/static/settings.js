// The forms of a learning tab: settings of the networks and ready-made data, each with its reason.

import { choice, slider } from "./controls.js";
import { label } from "./plot.js";
import { choicesOf, isCount, rangeOf } from "./state.js";

const METHODS = {
  unconstrained:
    "Fit the data alone. Nothing constrains a network where there is no data, so bands mean little.",
  regularised:
    "Every network is pulled to zero, so all become alike: bands are too narrow away from data.",
  anchored:
    "Each network is pulled to its own draw from the prior. Without data they disagree, " +
    "as Bayes' rule says they should.",
  rms: "Anchors, and fresh noise on each network's targets: exact for linear models.",
};
const ACTIVATIONS = {
  relu: "Straight pieces: away from the data the bands widen in straight lines.",
  leaky_relu: "Like ReLU with a small slope below zero.",
  erf: "Smooth and levelling off: the bands stay bounded far away.",
  tanh: "Much like ERF, but its infinite-width limit has no closed form: no exact answer is drawn.",
};
const ACTIVATION_WORDS = { relu: "ReLU", leaky_relu: "leaky ReLU", erf: "ERF", tanh: "tanh" };
const SLIDERS = [
  [
    "n_members",
    "Networks",
    { whole: true },
    "How many networks are trained. More give a steadier spread; five to ten are often enough.",
  ],
  [
    "width",
    "Width",
    { whole: true, log: true },
    "Hidden nodes of each network. The wider, the closer to the exact answer.",
  ],
  [
    "first_var",
    "Prior variance",
    { log: true },
    "For the first layer's weights: how steep and wiggly functions may be before any data.",
  ],
  [
    "noise_var",
    "Data noise",
    { log: true, live: true },
    "Variance of the noise on y. It sets how closely the points are followed, and the amber margin.",
  ],
  [
    "learning_rate",
    "Learning rate",
    { log: true, live: true },
    "Length of a training step. Too long and it jumps about, too short and it crawls.",
  ],
];

/** Controls of the settings named, by name; `change(name, value)` is told of each change. */
export function settingControls(hello, problem, names, change) {
  const choices = choicesOf(hello, problem);
  const common = (name) => ({
    name,
    test: `${problem}-${name}`,
    changed: (value) => change(name, value),
  });
  const controls = {
    method: choice({ ...common("method"), label: "Loss", values: choices.method, hints: METHODS }),
    activation: choice({
      ...common("activation"),
      label: "Activation",
      values: choices.activation,
      words: ACTIVATION_WORDS,
      hints: ACTIVATIONS,
    }),
  };
  for (const [name, title, options, hint] of SLIDERS.filter(([name]) => names.includes(name))) {
    controls[name] = slider({
      ...common(name),
      ...options,
      label: title,
      hint,
      range: rangeOf(hello, name),
      words: isCount(name) ? String : label,
    });
  }
  return controls;
}

/** The list of ready-made data; `chosen(preset, settings)` gets one, and what it sets or resets. */
export function presetControl(hello, problem, chosen) {
  const presets = hello.presets[problem];
  const steered = presets.flatMap((preset) => Object.keys(preset.settings ?? {}));
  const usual = Object.fromEntries(steered.map((name) => [name, hello.defaults[problem][name]]));
  const texts = (of) => Object.fromEntries(presets.map((preset) => [preset.name, of(preset)]));
  return choice({
    name: "preset",
    label: "Example",
    test: `${problem}-preset`,
    values: ["", ...presets.map(({ name }) => name)],
    words: { "": "your own points", ...texts(({ title }) => title) },
    hints: { "": "Points you have placed.", ...texts(({ text }) => text) },
    changed: (name) => {
      const preset = presets.find((one) => one.name === name);
      if (preset) chosen(preset, { ...usual, ...preset.settings });
    },
  });
}
