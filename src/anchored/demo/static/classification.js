// The classification pictures: probability of class B, and the doubt that data would remove.

import { make, toggle } from "./controls.js";
import {
  axes,
  begin,
  channels,
  contour,
  cross,
  field,
  inside,
  key,
  label,
  legend,
  mark,
  onceAFrame,
  palette,
} from "./plot.js";
import { editPoints } from "./pointer.js";
import { round } from "./state.js";

const EXTENT = [-3, 3];
const MOST = Math.LN2; // the greatest mutual information of two classes, in nats
const HELP =
  "Click adds a point of class A, Shift-click one of class B; drag moves, double-click deletes. " +
  "Keys: arrows move the cross, Enter adds A or lifts a point, Shift+Enter adds B, " +
  "N goes to the next, Delete removes.";

/** The pictures of the classification tab, for `trainingTab`. */
export function classificationPicture(part, tab, page) {
  const mine = tab.mine;
  const names = ["Probability of class B", "Doubt that more data would remove"];
  const captions = [
    HELP,
    "Mutual information, in nats: strong where the networks contradict one another. " +
      "Doubt between mixed classes, on which they agree, is not of this kind.",
  ];
  let classB = false;

  const say = (i, word) => {
    const [x, y, which] = mine().points[i];
    return `Point ${i + 1}, class ${"AB"[which]}, ${word} at ${label(x)}, ${label(y)}.`;
  };
  const edit = {
    points: () => mine().points,
    add: (x, y, other) => {
      if (mine().points.length >= page.hello.limits.points) {
        page.say(`There is room for ${page.hello.limits.points} points: delete one first.`);
        return;
      }
      tab.setPoints([...mine().points, [round(x), round(y), Number(other !== classB)]]);
      page.say(say(mine().points.length - 1, "added"));
    },
    move: (i, x, y) =>
      tab.setPoints(mine().points.with(i, [round(x), round(y), mine().points[i][2]])),
    remove: (i) => tab.setPoints(mine().points.toSpliced(i, 1), say(i, "deleted")),
    moved: onceAFrame(() => tab.redraw()),
  };
  const panes = names.map((name, i) => {
    const canvas = make("canvas", {
      class: "square",
      tabindex: "0",
      role: "application",
      "aria-label": `${name}. ${HELP}`,
      "data-testid": ["classification-plot", "classification-doubt"][i],
    });
    part("pictures").append(
      make("figure", {}, make("h2", {}, name), canvas, make("figcaption", {}, captions[i])),
    );
    const pane = { canvas, plot: null };
    pane.cursor = editPoints(canvas, { ...edit, plot: () => pane.plot });
    return pane;
  });
  part("pictures").classList.add("two");

  const swap = toggle({
    name: "class-b",
    label: "Add class B",
    test: "classification-class-b",
    hint: "A click then adds B, for fingers and for those without a Shift key.",
    changed: (value) => {
      classB = value;
    },
  });

  const drawPane = ({ canvas, cursor }, frame, values, tint, levels, items, bar) => {
    const colours = palette();
    const surface = begin(canvas, colours);
    const { context } = surface;
    const room = { left: 40, top: 4, width: surface.width - 50, colours };
    const top = 8 + legend(context, items, room);
    const plot = axes(surface, {
      x: EXTENT,
      y: EXTENT,
      colours,
      names: ["x₁", "x₂"],
      top,
      left: 44,
      right: 50,
    });
    inside(context, plot, () => {
      if (frame) {
        field(context, plot, values, frame.side, frame.extent, tint);
        for (const [level, style] of levels)
          contour(context, plot, values, frame.side, frame.extent, level, style);
      }
      mine().points.forEach(([x, y, which], i) => {
        const active = i === cursor.held || i === cursor.dragged;
        const style = pointStyle(which, colours);
        mark(context, [plot.px(x), plot.py(y)], { ...style, size: active ? 8 : style.size });
      });
      if (cursor.at && cursor.keys)
        cross(context, [plot.px(cursor.at[0]), plot.py(cursor.at[1])], colours.ink);
    });
    drawBar(context, plot, surface.width, tint, bar, colours);
    return plot;
  };

  const readout = (frame, at) => {
    if (!at || !frame) return "";
    const cell = (value) =>
      Math.round(((value - EXTENT[0]) / (EXTENT[1] - EXTENT[0])) * (frame.side - 1));
    const i = cell(at[1]) * frame.side + cell(at[0]);
    const [p, doubt] = [frame.probability[i], frame.mutual_information[i]];
    return (
      `At ${label(at[0])}, ${label(at[1])}: class B with probability ${label(p, 2)}; ` +
      `mutual information ${label(doubt, 2)} nats.`
    );
  };

  return {
    controls: { data: [swap.element], more: [] },
    plot: () => panes[0].plot,
    canvases: () => panes.map(({ canvas }) => canvas),
    presetChosen: () => {},
    refresh: () => {},
    numbers: (frame) => ({
      "Doubt, mean": [
        frame
          ? label(
              frame.mutual_information.reduce((a, b) => a + b, 0) / frame.mutual_information.length,
              2,
            )
          : "–",
        "mutual information, nats",
      ],
    }),
    draw: (frame) => {
      const colours = palette();
      const marks = [
        key.mark("class A", { ...pointStyle(0, colours), size: 5 }),
        key.mark("class B", { ...pointStyle(1, colours), size: 5 }),
      ];
      const border = [...marks, key.line("even odds", { colour: colours.ink, width: 1.5 })];
      const levels = [
        [0.5, { colour: colours.ink }],
        [0.1, { colour: colours.ink, width: 0.75, dash: [3, 4] }],
        [0.9, { colour: colours.ink, width: 0.75, dash: [3, 4] }],
      ];
      const between = mix([colours.one, colours.paper, colours.two]);
      const rising = mix([colours.paper, colours.three, colours.ink]);
      panes[0].plot = drawPane(
        panes[0],
        frame,
        frame?.probability,
        between,
        levels,
        border,
        [0, 0.5, 1],
      );
      const share = (value) => rising(Math.min(value / MOST, 1));
      panes[1].plot = drawPane(
        panes[1],
        frame,
        frame?.mutual_information,
        share,
        [],
        marks,
        [0, 0.3, 0.6],
      );
      part("readout").textContent = readout(frame, panes[0].cursor.at ?? panes[1].cursor.at);
    },
  };
}

function pointStyle(which, colours) {
  const shape = which ? "square" : "disc";
  return {
    shape,
    size: 5.5,
    fill: which ? colours.two : colours.one,
    edge: colours.ink,
    width: 1.25,
  };
}

/** Red, green, blue between even stops, for a share from 0 to 1. */
function mix(stops) {
  const known = stops.map(channels);
  return (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (known.length - 1);
    const i = Math.min(Math.floor(place), known.length - 2);
    return known[i].map((value, k) => value + (place - i) * (known[i + 1][k] - value));
  };
}

/** The scale of colours, right of the axes. */
function drawBar(context, plot, width, tint, [low, middle, high], colours) {
  const { top, height } = plot.box;
  const left = width - 42;
  for (let k = 0; k < height; k += 1) {
    context.fillStyle = `rgb(${tint(low + ((height - k) / height) * (high - low)).join(" ")})`;
    context.fillRect(left, top + k, 10, 1.5);
  }
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const [value, at] of [
    [high, 0.02],
    [middle, 0.5],
    [low, 0.98],
  ]) {
    context.fillText(label(value, 2), left + 14, top + at * height);
  }
}
