// What the page shows, as plain data; how it becomes a link and how a link is checked.

export const TABS = ["regression", "classification", "rms"];
export const SHOWN = ["members", "bands", "noise"];
export const GP_WAYS = ["over", "beside", "off"];
export const RMS_LIMITS = { mean: [-5, 5], deviation: [0.05, 10], correlation: [-0.999, 0.999] };

/** The state on a first visit: the first preset of each problem. */
export function firstState(hello) {
  const learning = (problem) => {
    const preset = hello.presets[problem][0];
    return {
      settings: { ...hello.defaults[problem], ...preset.settings },
      points: preset.points.map((point) => [...point]),
      preset: preset.name,
      seed: 0,
      pair: null, // of weights shown: the server's choice
    };
  };
  const regression = learning("regression");
  return {
    tab: "regression",
    regression: {
      ...regression,
      view: fitView(regression.points),
      show: { members: true, bands: true, noise: true },
      gp: "over",
    },
    classification: learning("classification"),
    rms: { mean: [1.2, 0.8], variances: [0.6, 0.6], correlation: 0.8, prior_variances: [1, 1] },
  };
}

/** A window on points [x, y] with room around them. */
export function fitView(points) {
  const span = (values, least) => {
    const low = Math.min(...values),
      high = Math.max(...values);
    const middle = values.length ? (low + high) / 2 : 0;
    const half = values.length ? Math.max(least, 0.9 * (high - low)) : least;
    return [round(middle - half), round(middle + half)];
  };
  return {
    x: span(
      points.map((p) => p[0]),
      1.5,
    ),
    y: span(
      points.map((p) => p[1]),
      2,
    ),
  };
}

/** Four significant digits: as many as the server keeps. */
export function round(value) {
  return Number(value.toPrecision(4));
}

/** The part of the state that the open tab shows, as the fragment of a link. */
export function encode(state) {
  const fields = new URLSearchParams({ tab: state.tab });
  const mine = state[state.tab];
  if (state.tab === "rms") {
    for (const name of ["mean", "variances", "prior_variances"])
      fields.set(name, mine[name].join(","));
    fields.set("correlation", mine.correlation);
    return tidy(fields);
  }
  for (const [name, value] of Object.entries(mine.settings)) fields.set(name, value);
  fields.set("seed", mine.seed);
  if (mine.pair) fields.set("pair", mine.pair.join(","));
  if (state.tab === "regression") {
    fields.set("x", mine.view.x.join(","));
    fields.set("y", mine.view.y.join(","));
    fields.set("show", SHOWN.filter((name) => mine.show[name]).join(","));
    fields.set("gp", mine.gp);
  }
  fields.set("points", mine.points.map((point) => point.join(",")).join(";"));
  return tidy(fields);
}

/** The state of a link's fragment, and the names of what in it was wrong and left out. */
export function decode(fragment, hello) {
  const state = firstState(hello);
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const wrong = [];
  const take = (name, read, keep) => {
    if (!fields.has(name)) return;
    const value = read(fields.get(name));
    if (value === null) wrong.push(name);
    else keep(value);
  };
  take("tab", oneOf(TABS), (tab) => {
    state.tab = tab;
  });
  const mine = state[state.tab];
  if (state.tab === "rms") {
    const { mean, deviation, correlation } = RMS_LIMITS;
    const square = deviation.map((value) => value * value);
    take("mean", numbers(2, mean), (value) => {
      mine.mean = value;
    });
    take("variances", numbers(2, square), (value) => {
      mine.variances = value;
    });
    take("prior_variances", numbers(2, square), (value) => {
      mine.prior_variances = value;
    });
    take("correlation", number(correlation), (value) => {
      mine.correlation = value;
    });
    return { state, wrong };
  }
  const choices = choicesOf(hello, state.tab);
  for (const name of Object.keys(mine.settings)) {
    const read = choices[name] ? oneOf(choices[name]) : number(rangeOf(hello, name), isCount(name));
    take(name, read, (value) => {
      mine.settings[name] = value;
    });
  }
  take("seed", number([0, hello.limits.seed], true), (seed) => {
    mine.seed = seed;
  });
  take("pair", numbers(2, [0, 1e7], true), (pair) => {
    mine.pair = pair;
  });
  take("points", points(state.tab, hello.limits), (found) => {
    mine.points = found;
    mine.preset = null;
  });
  if (state.tab === "regression") {
    const reach = [-hello.limits.coordinate, hello.limits.coordinate];
    mine.view = fitView(mine.points);
    const span = (text) => {
      const pair = numbers(2, reach)(text);
      return pair && pair[1] - pair[0] > 1e-3 ? pair : null;
    };
    take("x", span, (value) => {
      mine.view.x = value;
    });
    take("y", span, (value) => {
      mine.view.y = value;
    });
    take("show", listOf(SHOWN), (names) => {
      mine.show = Object.fromEntries(SHOWN.map((name) => [name, names.includes(name)]));
    });
    take("gp", oneOf(GP_WAYS), (way) => {
      mine.gp = way;
    });
  }
  return { state, wrong };
}

/** The choices open to a problem: classes have no noise on a target to randomise. */
export function choicesOf(hello, problem) {
  const method = hello.choices.method.filter((name) => problem === "regression" || name !== "rms");
  return { ...hello.choices, method };
}

/** Least and greatest value of a setting. */
export function rangeOf(hello, name) {
  return hello.ranges[name] ?? hello.limits[name];
}

/** Is the setting a whole number? */
export function isCount(name) {
  return name === "n_members" || name === "width";
}

function tidy(fields) {
  return `#${fields.toString().replaceAll("%2C", ",").replaceAll("%3B", ";")}`;
}

function number([low, high], whole = false) {
  return (text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    return value >= low && value <= high && (!whole || Number.isInteger(value)) ? value : null;
  };
}

function numbers(count, limits, whole = false) {
  const read = number(limits, whole);
  return (text) => {
    const found = text.split(",").map(read);
    return found.length === count && !found.includes(null) ? found : null;
  };
}

function points(problem, { points: most, coordinate }) {
  const place = numbers(2, [-coordinate, coordinate]);
  const read = (text) => {
    if (problem === "regression") return place(text);
    const [, where, label] = text.match(/^(.*),([01])$/) ?? [];
    const found = where === undefined ? null : place(where);
    return found && [...found, Number(label)];
  };
  return (text) => {
    const found = text === "" ? [] : text.split(";").map(read);
    return found.includes(null) || found.length > most ? null : found;
  };
}

function oneOf(allowed) {
  return (text) => (allowed.includes(text) ? text : null);
}

function listOf(allowed) {
  return (text) => {
    const names = text === "" ? [] : text.split(",");
    return names.every((name) => allowed.includes(name)) ? names : null;
  };
}
