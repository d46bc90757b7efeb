// What the two learning tabs share: buttons, settings, numbers and small pictures.

import { paced } from "./connection.js";
import { group } from "./controls.js";
import { drawWeights, frameRate, lossCurves, numberTiles } from "./panels.js";
import { label, onceAFrame } from "./plot.js";
import { presetControl, settingControls } from "./settings.js";

const STEPS = 100; // of the button "Step"

/**
 * Fill `section` with one learning tab. `page` offers send, state, hello and say.
 * `makePicture(part, tab, page)` gives the main picture: plot(), canvases(), controls, refresh(),
 * presetChosen(), numbers(frame) and draw(frame).
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
  const curves = lossCurves(part("loss")),
    rate = frameRate();
  const write = numberTiles(part("numbers"), problem);
  let frame = null,
    status = "",
    running = false,
    changes = {};

  const sendPoints = paced(() => send({ type: "points", points: mine().points }));
  const sendSettings = paced(() => {
    send({ type: "settings", settings: changes });
    changes = {};
  });

  const tab = {
    mine,
    frame: () => frame,
    isRunning: () => running,
    /** Ask the server to begin anew with what the page has. */
    open: () => {
      const { settings, points, seed, view, pair } = mine();
      curves.clear();
      send({ type: "open", problem, settings, points, seed, ...(view ? { view: view.x } : {}) });
      if (pair) send({ type: "weights", pair });
      if (running) send({ type: "run" });
      showState();
    },
    heard: (next) => {
      ({ running, status } = next);
      if (status !== "compiling") {
        frame = next;
        mine().pair = frame.weights.pair;
        showPair(part, mine().pair);
        curves.add(frame);
      }
      tab.redraw();
    },
    setPoints: (points, words = "") => {
      mine().points = points;
      mine().preset = null;
      preset.set("");
      sendPoints();
      if (words) page.say(words);
      tab.redraw();
    },
    redraw: onceAFrame(() => {
      if (section.hidden) return;
      picture.draw(frame);
      curves.draw();
      drawWeights(part("weights"), frame, mine().settings.method);
      write(numbers());
      showButton(part("run"), running);
    }),
    plot: () => picture.plot(),
    pictures: () => picture.canvases(),
  };

  const numbers = () => {
    const loss = frame ? frame.loss.reduce((a, b) => a + b, 0) / frame.loss.length : NaN;
    const speed = rate(frame?.frame ?? 0).toFixed(0);
    return {
      Step: [frame ? frame.step.toLocaleString("en") : "–", statusWords(frame, status)],
      ...picture.numbers(frame),
      "Mean loss": [label(loss), "what is minimised"],
      Points: [String(mine().points.length), `of at most ${page.hello.limits.points}`],
      "Pictures a second": running ? [speed, "while training"] : ["–", "paused"],
    };
  };

  const settings = settingControls(
    page.hello,
    problem,
    Object.keys(mine().settings),
    (name, value) => {
      mine().settings[name] = value;
      changes[name] = value;
      sendSettings();
      tab.redraw();
    },
  );
  const preset = presetControl(page.hello, problem, ({ name, points }, values) => {
    mine().points = points.map((point) => [...point]);
    mine().settings = { ...mine().settings, ...values };
    mine().preset = name;
    picture.presetChosen();
    tab.open();
  });
  const showState = () => {
    for (const [name, control] of Object.entries(settings)) control.set(mine().settings[name]);
    preset.set(mine().preset ?? "");
    picture.refresh();
    tab.redraw();
  };

  const picture = makePicture(part, tab, page);
  part("controls").append(
    group("Data", preset.element, ...picture.controls.data),
    ...picture.controls.more,
    group("Networks", ...Object.values(settings).map(({ element }) => element)),
  );
  listen(part, {
    run: () => send({ type: running ? "pause" : "run" }),
    step: () => {
      if (running) send({ type: "pause" });
      send({ type: "step", steps: STEPS });
    },
    anchors: () => send({ type: "anchors" }),
    reset: () => send({ type: "reset" }),
    clear: () => tab.setPoints([], "All points cleared: this is the prior."),
    pair: () => {
      if (frame) send({ type: "weights", pair: readPair(part, frame.weights.n_parameters - 1) });
    },
  });
  return tab;
}

function listen(part, { pair, ...clicks }) {
  for (const [name, act] of Object.entries(clicks)) part(name).addEventListener("click", act);
  for (const name of ["first", "second"]) part(name).addEventListener("change", pair);
  part("controls").addEventListener("submit", (event) => event.preventDefault());
}

/** The numbers of two weights, as typed, but never beyond the last. */
function readPair(part, last) {
  return ["first", "second"].map((name) => {
    const value = Math.min(Math.max(Math.round(Number(part(name).value)) || 0, 0), last);
    part(name).value = value;
    return value;
  });
}

function showPair(part, pair) {
  ["first", "second"].forEach((name, k) => {
    if (document.activeElement !== part(name)) part(name).value = pair[k];
  });
}

function showButton(button, running) {
  button.classList.toggle("running", running);
  button.querySelector("b").textContent = running ? "Pause" : "Start";
  button.querySelector("small").textContent = running ? "pause training" : "train the networks";
}

function statusWords(frame, status) {
  if (status === "compiling") return "preparing this size …";
  if (!frame) return "waiting for the server";
  if (status === "diverged") return "diverged: lower the rate, reset";
  return "of training";
}
