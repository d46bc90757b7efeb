// Ties the page together: tabs, theme, connection, links and pictures to keep.

import { classificationPicture } from "./classification.js";
import { connect } from "./connection.js";
import { make } from "./controls.js";
import { onceAFrame, palette } from "./plot.js";
import { regressionPicture } from "./regression.js";
import { rmsTab } from "./rms.js";
import { decode, encode, TABS } from "./state.js";
import { trainingTab } from "./training.js";

const element = (id) => document.getElementById(id);
const page = { send: (message) => line.send(message), state: null, hello: null, say };
const undrawn = []; // frames the server waits to hear of
let tabs = null,
  drawn = 0;

const acknowledge = onceAFrame(() => {
  drawn += undrawn.length;
  for (const frame of undrawn.splice(0)) page.send({ type: "ack", frame });
});

const answers = {
  hello: (message) => {
    page.hello = message;
    element("version").textContent = message.version;
    if (!tabs) begin();
    current().open();
  },
  frame: (message) => {
    undrawn.push(message.frame);
    tabs[message.problem].heard(message);
    acknowledge();
  },
  rms: (message) => tabs.rms.heard(message),
  error: ({ field, message }) => say(field ? `${field}: ${message}` : message),
};

const line = connect({
  heard: (message) => answers[message.type]?.(message),
  lost: (why, seconds) => {
    const next = seconds === null ? "" : ` Trying again in ${seconds} s.`;
    element("connection").hidden = false;
    element("connection-text").textContent =
      (why || "No connection to the server: is it still running?") +
      `${next} Your points and settings are kept.`;
  },
  up: () => {
    element("connection").hidden = true;
  },
});
element("retry").addEventListener("click", line.retry);

function begin() {
  const { state, wrong } = decode(location.hash, page.hello);
  page.state = state;
  if (wrong.length) say(`The link was not read in full. Left out: ${wrong.join(", ")}.`);
  const learning = (problem, picture) =>
    trainingTab(element(`panel-${problem}`), problem, page, picture);
  tabs = {
    regression: learning("regression", regressionPicture),
    classification: learning("classification", classificationPicture),
    rms: rmsTab(element("panel-rms"), page),
  };
  const watch = new ResizeObserver(() => current().redraw());
  document.querySelectorAll("canvas").forEach((canvas) => watch.observe(canvas));
  show(state.tab);
}

function current() {
  return tabs[page.state.tab];
}

function show(name) {
  page.state.tab = name;
  for (const tab of TABS) {
    const chosen = tab === name;
    element(`tab-${tab}`).setAttribute("aria-selected", String(chosen));
    element(`tab-${tab}`).tabIndex = chosen ? 0 : -1;
    element(`panel-${tab}`).hidden = !chosen;
  }
}

function say(words) {
  element("status").textContent = words;
}

function choose(name) {
  if (!tabs || name === page.state.tab) return;
  if (current().isRunning()) page.send({ type: "pause" });
  show(name);
  say("");
  current().open();
}

for (const name of TABS) {
  const button = element(`tab-${name}`);
  button.addEventListener("click", () => choose(name));
  button.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length];
    element(`tab-${next}`).focus();
    choose(next);
  });
}

element("copy-link").addEventListener("click", async () => {
  if (!tabs) return;
  history.replaceState(null, "", encode(page.state));
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied: it holds the settings and the points.");
  } catch {
    say("The link is in the address bar: copy it from there.");
  }
});

window.addEventListener("hashchange", () => {
  if (!tabs || !location.hash.startsWith("#tab=")) return;
  const { state, wrong } = decode(location.hash, page.hello);
  page.state = state;
  say(wrong.length ? `The link was not read in full. Left out: ${wrong.join(", ")}.` : "");
  show(state.tab);
  current().open();
});

element("save-picture").addEventListener("click", () => {
  if (!tabs) return;
  const parts = current().pictures();
  const whole = make("canvas");
  whole.width = parts.reduce((sum, part) => sum + part.width, 0);
  whole.height = Math.max(...parts.map((part) => part.height));
  const context = whole.getContext("2d");
  context.fillStyle = palette().paper;
  context.fillRect(0, 0, whole.width, whole.height);
  let left = 0;
  for (const part of parts) {
    context.drawImage(part, left, 0);
    left += part.width;
  }
  whole.toBlob((blob) => {
    const link = make("a", {
      href: URL.createObjectURL(blob),
      download: `anchored-${page.state.tab}.png`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say("Picture saved.");
  });
});

const theme = element("theme");
const dress = () => {
  document.documentElement.dataset.theme = theme.value;
  if (tabs) current().redraw();
};
const storage = (use) => {
  try {
    return use(localStorage);
  } catch {
    return null; // a browser may forbid it
  }
};
theme.value = storage((store) => store.getItem("theme")) ?? "auto";
theme.addEventListener("change", () => {
  storage((store) => store.setItem("theme", theme.value));
  dress();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
dress();

// A page nobody looks at does not train.
let paused = false;
document.addEventListener("visibilitychange", () => {
  if (!tabs) return;
  if (document.hidden && current().isRunning()) {
    paused = true;
    page.send({ type: "pause" });
  } else if (!document.hidden) {
    line.retry();
    if (paused) page.send({ type: "run" });
    paused = false;
  }
});

// For tests and the curious: what is shown, to be read only.
window.anchoredDemo = Object.freeze({
  get state() {
    return structuredClone(page.state);
  },
  get frame() {
    return tabs ? structuredClone(current().frame()) : null;
  },
  get hello() {
    return structuredClone(page.hello);
  },
  get drawn() {
    return drawn;
  },
  /** Where a place of the main picture is in the window. */
  where: (x, y) => {
    const frame = current().pictures()[0].getBoundingClientRect();
    return [frame.left + current().plot().px(x), frame.top + current().plot().py(y)];
  },
});
