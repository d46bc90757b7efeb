// Builds the form elements: choices, sliders and switches, each with its label and its reason.

let numbered = 0;

/** An element with attributes, properties for what is a function, and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A box of controls under a heading. */
export function group(title, ...children) {
  return make("fieldset", {}, make("legend", {}, title), ...children);
}

/** A drop-down list; `hints` may be one text or one for each value. */
export function choice({ name, label, values, words = {}, hints, test, changed }) {
  const id = `control-${(numbered += 1)}`;
  const hint = make("p", { class: "hint", id: `${id}-hint` });
  const select = make(
    "select",
    {
      id,
      name,
      "data-testid": test,
      "aria-describedby": hint.id,
      change: () => {
        say();
        changed(select.value);
      },
    },
    ...values.map((value) => make("option", { value }, words[value] ?? value)),
  );
  const say = () => {
    hint.textContent = typeof hints === "string" ? hints : (hints[select.value] ?? "");
  };
  say();
  return {
    element: make("div", { class: "control" }, make("label", { for: id }, label), select, hint),
    set: (value) => {
      select.value = value;
      say();
    },
  };
}

/**
 * A slider, logarithmic if `log`. It shows its number while it moves, and `changed(value)` is
 * called at once if `live`, else when it is let go.
 */
export function slider({
  name,
  label,
  range,
  log = false,
  whole = false,
  live = false,
  hint,
  test,
  changed,
  words,
}) {
  const id = `control-${(numbered += 1)}`;
  const [low, high] = log ? range.map(Math.log10) : range;
  const output = make("output", { for: id });
  const note = make("p", { class: "hint", id: `${id}-hint` }, hint);
  const read = () => {
    const value = log ? 10 ** Number(input.value) : Number(input.value);
    const tidy = whole ? Math.round(value) : Number(value.toPrecision(2));
    return Math.min(Math.max(tidy, range[0]), range[1]);
  };
  const show = (value) => {
    const text = words ? words(value) : String(value);
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  const tell = () => changed(read());
  const input = make("input", {
    id,
    name,
    type: "range",
    min: low,
    max: high,
    "data-testid": test,
    "aria-describedby": note.id,
    step: log ? (high - low) / 120 : whole ? 1 : (high - low) / 200,
    input: () => {
      show(read());
      if (live) tell();
    },
    change: () => {
      if (!live) tell();
    },
  });
  return {
    element: make(
      "div",
      { class: "control" },
      make("div", { class: "row" }, make("label", { for: id }, label), output),
      input,
      note,
    ),
    set: (value) => {
      input.value = log ? Math.log10(value) : value;
      show(value);
    },
  };
}

/** A check box. */
export function toggle({ name, label, hint, test, changed }) {
  const id = `control-${(numbered += 1)}`;
  const note = hint ? make("span", { class: "hint", id: `${id}-hint` }, hint) : "";
  const input = make("input", {
    id,
    name,
    type: "checkbox",
    "data-testid": test,
    "aria-describedby": hint ? note.id : null,
    change: () => changed(input.checked),
  });
  return {
    element: make(
      "div",
      { class: "control check" },
      input,
      make("label", { for: id }, label),
      note,
    ),
    set: (value) => {
      input.checked = value;
    },
  };
}
