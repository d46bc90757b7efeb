// Lets mouse, finger and keys add, move and delete the points of a picture.

const NEAR = 11; // pixels within which a point is meant, twice that for a finger

/**
 * Make `canvas` edit points. `plot()` gives its axes; `points()` the points, each beginning with
 * its two numbers; `add(x, y, other)`, `move(i, x, y)` and `remove(i)` change them; `moved()` is
 * called when the cursor does. The answer tells where the cursor is and which point is held.
 */
export function editPoints(canvas, { plot, points, add, move, remove, moved }) {
  const cursor = { at: null, keys: false, held: null, dragged: null };
  let pressed = null;

  const place = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  const nearest = ([px, py], reach = NEAR) => {
    let best = null,
      least = reach;
    points().forEach(([x, y], i) => {
      const distance = Math.hypot(plot().px(x) - px, plot().py(y) - py);
      if (distance <= least) [best, least] = [i, distance];
    });
    return best;
  };
  const clamp = ([px, py]) => {
    const { left, top, width, height } = plot().box;
    return [
      plot().ux(Math.min(Math.max(px, left), left + width)),
      plot().uy(Math.min(Math.max(py, top), top + height)),
    ];
  };
  const isInside = ([px, py]) => {
    const { left, top, width, height } = plot().box;
    return px >= left && px <= left + width && py >= top && py <= top + height;
  };
  const show = (at, keys) => {
    cursor.at = at;
    cursor.keys = keys;
    moved();
  };

  canvas.addEventListener(
    "touchstart",
    (event) => {
      // A finger on a point drags it; anywhere else it scrolls the page.
      if (plot() && nearest(place(event.touches[0]), 2 * NEAR) !== null) event.preventDefault();
    },
    { passive: false },
  );

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !plot()) return;
    const at = place(event);
    const hit = nearest(at, event.pointerType === "touch" ? 2 * NEAR : NEAR);
    pressed = { at, hit };
    if (hit !== null) {
      cursor.dragged = hit;
      canvas.setPointerCapture(event.pointerId);
    }
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!plot()) return;
    const at = place(event);
    if (cursor.dragged !== null) {
      if (Math.hypot(at[0] - pressed.at[0], at[1] - pressed.at[1]) > 2)
        move(cursor.dragged, ...clamp(at));
    } else canvas.style.cursor = nearest(at) === null ? "crosshair" : "grab";
    show(isInside(at) ? clamp(at) : null, false);
  });

  canvas.addEventListener("pointerup", (event) => {
    if (!pressed) return;
    const at = place(event);
    const still = Math.hypot(at[0] - pressed.at[0], at[1] - pressed.at[1]) < 5;
    if (pressed.hit === null && still && isInside(at)) add(...clamp(at), event.shiftKey);
    pressed = null;
    cursor.dragged = null;
    show(clamp(at), false);
  });

  canvas.addEventListener("pointercancel", () => {
    pressed = null;
    cursor.dragged = null;
  });
  canvas.addEventListener("pointerleave", () => {
    if (!cursor.keys) show(null, false);
  });
  canvas.addEventListener("blur", () => {
    cursor.held = null;
    show(null, false);
  });

  canvas.addEventListener("dblclick", (event) => {
    const hit = plot() ? nearest(place(event)) : null;
    if (hit !== null) remove(hit);
  });

  canvas.addEventListener("keydown", (event) => {
    if (!plot() || event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, y } = plot();
    const [cx, cy] = cursor.at ?? [(x[0] + x[1]) / 2, (y[0] + y[1]) / 2];
    const under = cursor.held ?? nearest([plot().px(cx), plot().py(cy)]);
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[
      event.key
    ];
    if (arrow) {
      const step = event.shiftKey ? 1 / 12 : 1 / 60;
      const limit = (value, [low, high]) => Math.min(Math.max(value, low), high);
      const next = [
        limit(cx + arrow[0] * step * (x[1] - x[0]), x),
        limit(cy + arrow[1] * step * (y[1] - y[0]), y),
      ];
      if (cursor.held !== null) move(cursor.held, ...next);
      show(next, true);
    } else if (event.key === "Enter" || event.key === " ") {
      if (cursor.held !== null) cursor.held = null;
      else if (under !== null) cursor.held = under;
      else add(cx, cy, event.shiftKey);
      show([cx, cy], true);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      if (under === null) return;
      cursor.held = null;
      remove(under);
      show([cx, cy], true);
    } else if (event.key === "n" || event.key === "N") {
      if (!points().length) return;
      const next = ((under ?? -1) + 1) % points().length;
      cursor.held = null;
      show(points()[next].slice(0, 2), true);
    } else if (event.key === "Escape") {
      cursor.held = null;
      show([cx, cy], true);
    } else return;
    event.preventDefault();
  });

  return cursor;
}
