// Draws axes, lines, bands, fields and ellipses on a canvas, crisp at any pixel density.

const FONT =
  '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The page's colours, as its style sheet has them now. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "soft", "rule", "one", "two", "noise", "three", "four"];
  return Object.fromEntries(
    names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
}

/** Colour `#rrggbb` at the given opacity. */
export function faint(colour, opacity) {
  return `rgb(${channels(colour).join(" ")} / ${opacity})`;
}

/** Red, green and blue, 0 to 255, of `#rrggbb`. */
export function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** A cleared context whose unit is one CSS pixel, and the canvas's size in them. */
export function begin(canvas, colours) {
  const width = canvas.clientWidth,
    height = canvas.clientHeight;
  const density = window.devicePixelRatio || 1;
  const across = Math.round(width * density),
    down = Math.round(height * density);
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.lineJoin = "round";
  return { context, width, height };
}

/** Round numbers between low and high, about `count` of them. */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

/** Draw a frame with ticks and names; the answer turns numbers into pixels and back. */
export function axes(surface, options) {
  const { context, width, height } = surface;
  const { x, y, colours, names = ["", ""], top = 10, right = 12 } = options;
  const { scale = (v) => v, yTicks = null } = options;
  const left = options.left ?? 44,
    bottom = names[0] ? 38 : 24;
  const box = { left, top, width: width - left - right, height: height - top - bottom };
  const [low, high] = y.map(scale);
  const result = {
    box,
    x,
    y,
    px: (value) => box.left + ((value - x[0]) / (x[1] - x[0])) * box.width,
    py: (value) => box.top + ((high - scale(value)) / (high - low)) * box.height,
    ux: (pixel) => x[0] + ((pixel - box.left) / box.width) * (x[1] - x[0]),
    uy: (pixel) => high - ((pixel - box.top) / box.height) * (high - low),
  };
  context.lineWidth = 1;
  context.strokeStyle = colours.rule;
  context.fillStyle = colours.soft;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of ticks(...x, Math.max(4, box.width / 90))) {
    const at = Math.round(result.px(value)) + 0.5;
    stroke(context, [
      [at, box.top],
      [at, box.top + box.height],
    ]);
    context.fillText(label(value), at, box.top + box.height + 6);
  }
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of yTicks ?? ticks(...y, Math.max(4, box.height / 60))) {
    const at = Math.round(result.py(value)) + 0.5;
    stroke(context, [
      [box.left, at],
      [box.left + box.width, at],
    ]);
    context.fillText(label(value), box.left - 7, at);
  }
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(names[0], box.left + box.width / 2, height - 2);
  context.save();
  context.translate(12, box.top + box.height / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "middle";
  context.fillText(names[1], 0, 0);
  context.restore();
  return result;
}

/** Run `draw` with everything outside the axes cut off. */
export function inside(context, plot, draw) {
  const { left, top, width, height } = plot.box;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  draw();
  context.restore();
}

/** A curve through numbers xs, ys; it has a gap where a number is missing. */
export function line(context, plot, xs, ys, { colour, width = 1.5, dash = [] }) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  let drawing = false;
  xs.forEach((value, i) => {
    const known = Number.isFinite(ys[i]);
    if (known && drawing) context.lineTo(plot.px(value), plot.py(ys[i]));
    else if (known) context.moveTo(plot.px(value), plot.py(ys[i]));
    drawing = known;
  });
  context.stroke();
  context.setLineDash([]);
}

/** The area between two curves. */
export function band(context, plot, xs, low, high, fill) {
  context.fillStyle = fill;
  context.beginPath();
  xs.forEach((value, i) => context.lineTo(plot.px(value), plot.py(high[i])));
  for (let i = xs.length - 1; i >= 0; i -= 1) context.lineTo(plot.px(xs[i]), plot.py(low[i]));
  context.fill();
}

/** A mark at one place: disc, square or diamond. */
export function mark(context, [x, y], { shape = "disc", size = 5, fill, edge, width = 1.5 }) {
  context.beginPath();
  if (shape === "disc") context.arc(x, y, size, 0, 2 * Math.PI);
  else if (shape === "square") context.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
  else {
    for (const [dx, dy] of [
      [0, -1],
      [1, 0],
      [0, 1],
      [-1, 0],
    ]) {
      context.lineTo(x + 1.25 * size * dx, y + 1.25 * size * dy);
    }
    context.closePath();
  }
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (edge) {
    context.strokeStyle = edge;
    context.lineWidth = width;
    context.stroke();
  }
}

/** Where the keyboard's cross stands. */
export function cross(context, [x, y], colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  stroke(context, [
    [x - 11, y],
    [x - 4, y],
  ]);
  stroke(context, [
    [x + 4, y],
    [x + 11, y],
  ]);
  stroke(context, [
    [x, y - 11],
    [x, y - 4],
  ]);
  stroke(context, [
    [x, y + 4],
    [x, y + 11],
  ]);
}

/** The ellipse `k` deviations from the mean of a normal with covariance `cov`. */
export function ellipse(
  context,
  plot,
  mean,
  cov,
  k,
  { colour, fill = null, width = 2, dash = [] },
) {
  const a = Math.sqrt(cov[0][0]);
  const b = cov[0][1] / a;
  const c = Math.sqrt(Math.max(cov[1][1] - b * b, 0));
  context.beginPath();
  for (let i = 0; i <= 90; i += 1) {
    const u = k * Math.cos((i * Math.PI) / 45),
      v = k * Math.sin((i * Math.PI) / 45);
    context.lineTo(plot.px(mean[0] + a * u), plot.py(mean[1] + b * u + c * v));
  }
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

/** A square field of numbers, row-major with x fastest; `tint` gives red, green, blue of each. */
export function field(context, plot, values, side, extent, tint) {
  const image = new ImageData(side, side);
  values.forEach((value, i) => {
    const row = side - 1 - Math.floor(i / side);
    image.data.set([...tint(value), 255], 4 * (row * side + (i % side)));
  });
  const small = new OffscreenCanvas(side, side);
  small.getContext("2d").putImageData(image, 0, 0);
  const half = (extent[1] - extent[0]) / (side - 1) / 2; // a value sits at its cell's centre
  const left = plot.px(extent[0] - half),
    top = plot.py(extent[1] + half);
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  const across = plot.px(extent[1] + half) - left,
    down = plot.py(extent[0] - half) - top;
  context.drawImage(small, left, top, across, down);
}

/** The line where such a field has the given value. */
export function contour(
  context,
  plot,
  values,
  side,
  extent,
  level,
  { colour, width = 1.5, dash = [] },
) {
  const place = (k) => extent[0] + ((extent[1] - extent[0]) * k) / (side - 1);
  const at = (i, j) => values[j * side + i] - level;
  const edges = [
    [0, 0, 1, 0],
    [1, 0, 1, 1],
    [1, 1, 0, 1],
    [0, 1, 0, 0],
  ];
  context.beginPath();
  for (let j = 0; j < side - 1; j += 1) {
    for (let i = 0; i < side - 1; i += 1) {
      const hits = [];
      for (const [a, b, c, d] of edges) {
        const from = at(i + a, j + b),
          to = at(i + c, j + d);
        if (from < 0 === to < 0) continue;
        const share = from / (from - to);
        hits.push([
          plot.px(place(i + a + share * (c - a))),
          plot.py(place(j + b + share * (d - b))),
        ]);
      }
      for (let k = 0; k + 1 < hits.length; k += 2) {
        context.moveTo(...hits[k]);
        context.lineTo(...hits[k + 1]);
      }
    }
  }
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

/** Names of what is drawn, in rows from (left, top); the answer is the height they take. */
export function legend(context, items, { left, top, width, colours }) {
  let x = left,
    y = top + 8;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const item of items) {
    const wide = context.measureText(item.text).width + 30;
    if (x + wide > left + width && x > left) {
      x = left;
      y += 18;
    }
    item.draw(context, x, y);
    context.fillStyle = colours.ink;
    context.fillText(item.text, x + 22, y);
    x += wide + 12;
  }
  return y + 8 - top;
}

/** Keys of a legend. */
export const key = {
  line: (text, style) => ({
    text,
    draw: (context, x, y) => {
      context.strokeStyle = style.colour;
      context.lineWidth = style.width ?? 2;
      context.setLineDash(style.dash ?? []);
      stroke(context, [
        [x, y],
        [x + 17, y],
      ]);
      context.setLineDash([]);
    },
  }),
  area: (text, fill) => ({
    text,
    draw: (context, x, y) => {
      context.fillStyle = fill;
      context.fillRect(x, y - 6, 17, 12);
    },
  }),
  mark: (text, style) => ({ text, draw: (context, x, y) => mark(context, [x + 9, y], style) }),
};

/** Call `draw` once before the next repaint, however often asked. */
export function onceAFrame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}

/** A number for people: few digits, a true minus sign. */
export function label(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const few = size !== 0 && (size < 1e-3 || size >= 1e5);
  const text = few ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace(/\.0+e/, "e").replace("e+", "e").replaceAll("-", "−");
}

function stroke(context, places) {
  context.beginPath();
  for (const [x, y] of places) context.lineTo(x, y);
  context.stroke();
}
