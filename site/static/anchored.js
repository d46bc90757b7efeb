// The arithmetic of `anchored.runtime` in plain JavaScript: a model's JSON in, predictions out.
//
//   anchored.predict(JSON.parse(text), rows, 0.9).mean;
//
// Rows are arrays of features. Regression gives mean, std, epistemic_std, aleatoric_std, lower and
// upper; classes give probabilities, entropy and mutual_information; both give novelty.

(function () {
  "use strict";

  const MAX_DOF = 1e6; // from here on a Student-t is taken to be normal
  const LEAKY_SLOPE = 0.2;
  const LOG_NOISE_CLIP = 8;

  const clip = (value, least, most) => Math.min(Math.max(value, least), most);
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const average = (values) => sum(values) / values.length;

  /** Variance with M - 1 below; of one value 0. */
  function spread(values) {
    if (values.length < 2) return 0;
    const middle = average(values);
    return sum(values.map((value) => (value - middle) ** 2)) / (values.length - 1);
  }

  // Special functions

  /** 1 - erf(z) for z >= 0: a series below 2, a continued fraction above. */
  function erfc(z) {
    if (z < 0) return 2 - erfc(-z);
    if (z < 2) {
      let term = z,
        total = z;
      for (let n = 1; n < 100; n++) {
        term *= (-z * z) / n;
        total += term / (2 * n + 1);
        if (Math.abs(term) < 1e-17) break;
      }
      return 1 - (2 / Math.sqrt(Math.PI)) * total;
    }
    if (z > 27) return 0;
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (z + fraction);
    return Math.exp(-z * z) / Math.sqrt(Math.PI) / (z + fraction);
  }

  const erf = (z) => Math.sign(z) * (1 - erfc(Math.abs(z)));
  const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));

  /** The normal score of a level: Newton's method on the logarithm of the smaller tail. */
  function normalScore(level) {
    if (level > 0.5) return -normalScore(1 - level);
    if (level === 0.5) return 0;
    let score = -Math.sqrt(Math.max(-2 * Math.log(2 * level), 0)) || -1e-3;
    for (let step = 0; step < 100; step++) {
      const tail = erfc(-score / Math.SQRT2) / 2;
      const density = Math.exp((-score * score) / 2) / Math.sqrt(2 * Math.PI);
      const change = ((Math.log(tail) - Math.log(level)) * tail) / density;
      score -= clip(change, -1, 1);
      if (Math.abs(change) < 1e-15 * Math.max(1, Math.abs(score))) break;
    }
    return score;
  }

  /** Logarithm of the gamma function by Stirling's series, for positive z. */
  function logGamma(z) {
    let shift = 0;
    while (z < 12) shift += Math.log(z++);
    const u = 1 / (z * z);
    const series = (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u / 1680))) / z;
    return (z - 0.5) * Math.log(z) - z + 0.5 * Math.log(2 * Math.PI) + series - shift;
  }

  // Student-t quantiles

  const CENTRAL = gaussLegendre(32).map(([at, weight]) => [Math.log((1 + at) / 2), weight / 2]);
  const TAIL = Array.from({ length: 169 }, (_, i) => {
    const k = (i - 112) / 32,
      y = Math.exp((Math.PI / 2) * Math.sinh(k));
    return [y, (y * Math.exp(y) * (Math.PI / 2) * Math.cosh(k)) / 32];
  }).filter(([y]) => y < 700);

  /** Nodes and weights of the integral from -1 to 1. */
  function gaussLegendre(n) {
    return Array.from({ length: n }, (_, i) => {
      let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5)),
        slope = 1;
      for (let step = 0; step < 100; step++) {
        let before = 1,
          value = x;
        for (let k = 2; k <= n; k++)
          [before, value] = [value, ((2 * k - 1) * x * value - (k - 1) * before) / k];
        slope = (n * (x * value - before)) / (x * x - 1);
        const change = value / slope;
        x -= change;
        if (Math.abs(change) < 1e-16) break;
      }
      return [x, 2 / ((1 - x * x) * slope * slope)];
    });
  }

  /** Log of the quantile at a positive normal score, for one number of degrees of freedom. */
  function logQuantile(score, dof) {
    const tail = erfc(score / Math.SQRT2) / 2,
      central = 0.5 - tail;
    const inside = central < tail,
      nodes = inside ? CENTRAL : TAIL;
    const goal = Math.log(inside ? erf(score / Math.SQRT2) / 2 : tail);
    const constant =
      logGamma((dof + 1) / 2) - logGamma(dof / 2) - 0.5 * Math.log(dof * Math.PI);
    const logDensity = (logT) => {
      const square = 2 * logT - Math.log(dof);
      return constant - ((dof + 1) / 2) * (square > 30 ? square : Math.log1p(Math.exp(square)));
    };
    let logT = 0;
    for (let step = 0; step < 200; step++) {
      let mass = 0;
      for (const [at, weight] of nodes) mass += weight * Math.exp(logT + logDensity(logT + at));
      const slope = Math.exp(logT + logDensity(logT));
      const change = clip(((Math.log(mass) - goal) * mass) / slope, -1, 1);
      logT += inside ? -change : change;
      if (Math.abs(change) < 1e-13) break;
    }
    return logT;
  }

  const N_SOLVED = 33;
  const fits = new Map();

  /** Chebyshev coefficients of the log quantile in 2 / dof - 1, for a positive score. */
  function quantileFit(score) {
    if (!fits.has(score)) {
      const angle = (i) => (Math.PI * (i + 0.5)) / N_SOLVED;
      const values = Array.from({ length: N_SOLVED }, (_, i) =>
        logQuantile(score, 2 / (1 + Math.cos(angle(i)))),
      );
      const coefficients = Array.from({ length: N_SOLVED }, (_, k) => {
        const total = sum(values.map((value, i) => value * Math.cos(k * angle(i))));
        return ((k === 0 ? 1 : 2) / N_SOLVED) * total;
      });
      if (fits.size > 200) fits.clear();
      fits.set(score, coefficients);
    }
    return fits.get(score);
  }

  /** The quantile of a standard Student-t at the level of a normal score. */
  function studentQuantile(score, dof) {
    const size = Math.min(Math.abs(score), 37);
    if (size < 1e-12) return 0;
    if (dof >= MAX_DOF) return Math.sign(score) * size;
    const at = 2 / dof - 1;
    let next = 0,
      later = 0;
    const coefficients = quantileFit(size);
    for (let k = N_SOLVED - 1; k > 0; k--)
      [next, later] = [coefficients[k] + 2 * at * next - later, next];
    return Math.sign(score) * Math.exp(coefficients[0] + at * next - later);
  }

  // Networks

  const ACTIVATIONS = {
    relu: (z) => Math.max(z, 0),
    leaky_relu: (z) => Math.max(z, LEAKY_SLOPE * z),
    erf,
    tanh: Math.tanh,
    gelu: (z) => 0.5 * z * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3))),
    softplus,
  };

  /** Outputs [member][out] of all members for one standardised row. */
  function outputs(network, row) {
    const activate = ACTIVATIONS[network.activation],
      last = network.layers.length - 1;
    const nMembers = network.layers[0].weight.length;
    return Array.from({ length: nMembers }, (_, j) => {
      let x = row;
      network.layers.forEach(({ weight, bias }, i) => {
        const next = bias ? bias[j].slice() : new Array(weight[j][0].length).fill(0);
        for (let k = 0; k < x.length; k++) {
          const line = weight[j][k];
          for (let m = 0; m < line.length; m++) next[m] += x[k] * line[m];
        }
        x = i < last ? next.map(activate) : next;
      });
      return x;
    });
  }

  /** A row as the networks take it. */
  function standardised(model, row) {
    let z = row;
    if (model.x_mean) {
      z = row.map((value, i) => (value - model.x_mean[i]) / model.x_scale[i]);
      if (model.x_reach) z = z.map((v, i) => clip(v, model.x_reach[0][i], model.x_reach[1][i]));
      if (model.x_limit)
        z = z.map((v, i) =>
          model.x_limit[i] === null ? v : v / Math.hypot(1, v / model.x_limit[i]),
        );
      if (model.x_ramps) {
        const [column, start, end, height] = model.x_ramps;
        const climbed = column.map((c, i) => {
          const share = clip((z[c] - start[i]) / (end[i] - start[i]), 0, 1);
          return height[i] * (share - 0.5);
        });
        z = [...z, ...climbed];
      }
    }
    return model.single ? z.map(Math.fround) : z;
  }

  // Regression

  /** Variance of the noise of one standardised row, as held-out rows taught it. */
  function noiseAt(noise, z) {
    if (!noise.shape) return noise.noise_var;
    const found = outputs(noise.shape.network, z.slice(0, noise.shape.n_features));
    const log = average(found.map(([value]) => clip(value, -LOG_NOISE_CLIP, LOG_NOISE_CLIP)));
    return noise.noise_var * Math.exp(clip(log, noise.shape.least, noise.shape.most));
  }

  /** The corrected score: straight from knot to knot, and beyond the outer ones. */
  function corrected(conformal, score) {
    if (!conformal) return score;
    const ours = conformal.levels.map(normalScore),
      theirs = conformal.scores.map(Number),
      n = ours.length;
    const slope = (i) => (theirs[i + 1] - theirs[i]) / (ours[i + 1] - ours[i]);
    if (score <= ours[0]) return theirs[0] + Math.max(slope(0), 1) * (score - ours[0]);
    if (score >= ours[n - 1])
      return theirs[n - 1] + Math.max(slope(n - 2), 1) * (score - ours[n - 1]);
    let i = 0;
    while (score > ours[i + 1]) i++;
    return theirs[i] + slope(i) * (score - ours[i]);
  }

  /** Members' means and variances on the networks' scale, and what describes their mixture. */
  function latent(model, row) {
    const { regression } = model,
      z = standardised(model, row);
    const found = outputs(model.network, z);
    const { scale, mean: shift, noise } = regression;
    const members = found.map((out) => out[0] * scale + shift);
    let variance;
    if (regression.floor !== null)
      variance = average(found.map((out) => softplus(out[1]) + regression.floor));
    else if (noise) variance = noiseAt(noise, z);
    else variance = regression.noise_var / scale ** 2;
    const own = spread(members);
    return {
      members,
      mean: average(members),
      own,
      epistemic: own * (noise ? noise.factor : 1),
      aleatoric: variance * scale ** 2,
      dof: noise && noise.noise_dof !== null ? noise.noise_dof : Infinity,
      conformal: noise ? noise.conformal : null,
    };
  }

  /** Location, scale and degrees of freedom: Welch-Satterthwaite for few members and noise. */
  function locationScale(family, part) {
    const { mean, epistemic, aleatoric, own, members, dof } = part;
    if (family === "gaussian")
      return { location: mean, scale: Math.sqrt(epistemic + aleatoric), dof: MAX_DOF };
    const n = members.length;
    const wide = n > 1 ? epistemic + own / n : epistemic,
      wideDof = n > 1 ? n - 1 : Infinity;
    const total = wide + aleatoric * (1 - 2 / dof);
    const share = total > 0 ? wide / total : 0;
    const inverse = share ** 2 / wideDof + (1 - share) ** 2 / dof;
    return { location: mean, scale: Math.sqrt(total), dof: 1 / Math.max(inverse, 1 / MAX_DOF) };
  }

  /** Mean and the two variances in the target's units. */
  function moments(warp, part) {
    const { members, own, epistemic, aleatoric, dof } = part;
    if (!warp) return { mean: part.mean, epistemic, aleatoric, members };
    const top = Math.log(warp.most + warp.shift),
      bulk = aleatoric * (1 - 2 / dof);
    const above = members.map((t) => warp.raised * Math.exp(Math.min(t, top)));
    const means = above.map((value) => clip(value - warp.shift, warp.least, warp.most));
    const ratio = members.length > 1 && own > 0 ? epistemic / own : 1;
    return {
      mean: average(means),
      epistemic: spread(means) * ratio,
      aleatoric: average(above.map((value) => value ** 2 * Math.expm1(Math.min(bulk, 1)))),
      members: means,
    };
  }

  function inverse(warp, t) {
    if (!warp) return t;
    const top = Math.log(warp.most + warp.shift);
    return clip(Math.exp(Math.min(t, top)) - warp.shift, warp.least, warp.most);
  }

  function predictNumber(model, row, coverage) {
    const { family, warp } = model.regression,
      part = latent(model, row);
    const { location, scale, dof } = locationScale(family, part);
    const end = (level) =>
      inverse(
        warp,
        location + scale * studentQuantile(corrected(part.conformal, normalScore(level)), dof),
      );
    const { mean, epistemic, aleatoric, members } = moments(warp, part);
    return {
      mean,
      std: Math.sqrt(epistemic + aleatoric),
      epistemic_std: Math.sqrt(epistemic),
      aleatoric_std: Math.sqrt(aleatoric),
      lower: end((1 - coverage) / 2),
      upper: end((1 + coverage) / 2),
      members,
      novelty: unlikeness([Math.sqrt(part.epistemic)], model.novelty_scale),
    };
  }

  // Classes

  const entropy = (p) => -sum(p.map((value) => (value > 0 ? value * Math.log(value) : 0)));

  function softmax(logits) {
    const most = Math.max(...logits),
      powers = logits.map((value) => Math.exp(value - most)),
      total = sum(powers);
    return powers.map((value) => value / total);
  }

  function predictClass(model, row) {
    const logits = outputs(model.network, standardised(model, row)),
      members = logits.map(softmax);
    const plain = members[0].map((_, c) => average(members.map((p) => p[c])));
    const most = Math.max(...plain);
    const powers = plain.map((p) => (p / most) ** (1 / model.temperature)),
      total = sum(powers);
    const probabilities = model.temperature === 1 ? plain : powers.map((p) => p / total);
    const information = Math.max(entropy(plain) - average(members.map(entropy)), 0);
    const centred = logits.map((line) => line.map((value) => value - average(line)));
    const apart = Math.sqrt(average(plain.map((_, c) => spread(centred.map((line) => line[c])))));
    return {
      probabilities,
      prediction: model.classes[probabilities.indexOf(Math.max(...probabilities))],
      entropy: entropy(probabilities),
      mutual_information: information,
      novelty: unlikeness([information, apart], model.novelty_scale),
    };
  }

  /** The largest of value / scale; nothing of nothing is 0. */
  function unlikeness(values, scale) {
    if (!scale) return null;
    return Math.max(
      ...values.map((value, i) => (scale[i] > 0 ? value / scale[i] : value > 0 ? Infinity : 0)),
    );
  }

  /** Columns of predictions for rows of features. */
  function predict(model, rows, coverage = 0.9) {
    const wrong = rows.find(
      (row) => row.length !== model.n_features || !row.every(Number.isFinite),
    );
    if (wrong) throw new Error(`a row must be ${model.n_features} numbers; got ${wrong}`);
    if (!(coverage > 0 && coverage < 1))
      throw new Error(`coverage must be between 0 and 1; got ${coverage}`);
    const found = rows.map((row) =>
      model.classes ? predictClass(model, row) : predictNumber(model, row, coverage),
    );
    const names = Object.keys(found[0] ?? {});
    return Object.fromEntries(names.map((name) => [name, found.map((one) => one[name])]));
  }

  // Randomised MAP sampling of two parameters (`anchored.rms`)

  const product = (a, b) =>
    a.map((line) => [0, 1].map((k) => line[0] * b[0][k] + line[1] * b[1][k]));
  const plus = (a, b) => a.map((line, i) => line.map((value, k) => value + b[i][k]));
  const times = (a, v) => a.map((line) => line[0] * v[0] + line[1] * v[1]);
  function inverted([[a, b], [c, d]]) {
    const det = a * d - b * c;
    return [
      [d / det, -b / det],
      [-c / det, a / det],
    ];
  }

  /** The five normals of the explainer, each with mean and cov. */
  function rms({ mean, variances, correlation, prior_variances: priorVariances }) {
    const off = correlation * Math.sqrt(variances[0] * variances[1]);
    const likelihood = [
      [variances[0], off],
      [off, variances[1]],
    ];
    const prior = [
      [priorVariances[0], 0],
      [0, priorVariances[1]],
    ];
    const precision = inverted(likelihood),
      total = plus(inverted(prior), precision);
    const cov = inverted(total),
      centre = times(cov, times(precision, mean));
    return {
      prior: { mean: [0, 0], cov: prior },
      likelihood: { mean, cov: likelihood },
      posterior: { mean: centre, cov },
      anchored: { mean: centre, cov: product(product(cov, inverted(prior)), cov) },
      mean_field: {
        mean: centre,
        cov: [
          [1 / total[0][0], 0],
          [0, 1 / total[1][1]],
        ],
      },
    };
  }

  window.anchored = { predict, rms, normalScore, studentQuantile, erf };
})();
