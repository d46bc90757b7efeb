"""The same anchored ensemble in PyTorch, two ways: a plain loop and `torch.func.vmap`."""

import time

import torch


class Problem:
    """Anchored ensemble on random rows of the Boston setting."""

    def __init__(self, n_members, n_hidden, n_features, n_rows, batch_size, noise_var, first_var):
        generator = torch.Generator().manual_seed(0)
        shapes = ((n_features, n_hidden), (n_hidden,), (n_hidden, 1))
        variances = (first_var / n_features, first_var, 1 / n_hidden)
        self.x = torch.randn(n_rows, n_features, generator=generator)
        self.y = torch.randn(n_rows, 1, generator=generator)
        self.n_rows, self.batch_size, self.noise_var = n_rows, batch_size, noise_var
        self.variances = variances
        draw = lambda: [  # noqa: E731
            v**0.5 * torch.randn(n_members, *s, generator=generator)
            for s, v in zip(shapes, variances, strict=True)
        ]
        self.anchors, self.start = draw(), draw()

    def batch(self):
        rows = torch.randint(self.n_rows, (self.batch_size,))
        return self.x[rows], self.y[rows]

    def loss(self, params, anchors, x, y):
        w, b, v = params
        fit = torch.mean((y - torch.relu(x @ w + b) @ v) ** 2)
        pull = sum(
            torch.sum((p - a) ** 2) * self.noise_var / var
            for p, a, var in zip(params, anchors, self.variances, strict=True)
        )
        return fit + pull / self.n_rows


def loop_seconds(problem, n_steps):
    """One member after another, the way most people write it."""
    members = [[p[j].clone().requires_grad_() for p in problem.start] for j in range(5)]
    anchors = [[a[j] for a in problem.anchors] for j in range(5)]
    optimisers = [torch.optim.Adam(m, lr=0.05) for m in members]
    started = time.perf_counter()
    for _ in range(n_steps):
        x, y = problem.batch()
        for params, anchor, optimiser in zip(members, anchors, optimisers, strict=True):
            optimiser.zero_grad()
            problem.loss(params, anchor, x, y).backward()
            optimiser.step()
    return (time.perf_counter() - started) / n_steps


def vmap_seconds(problem, n_steps):
    """All members at once through `torch.func`, with one Adam over the stacked parameters."""
    params = [p.clone() for p in problem.start]
    optimiser = torch.optim.Adam(params, lr=0.05)
    gradient = torch.func.vmap(torch.func.grad(problem.loss), in_dims=(0, 0, None, None))
    started = time.perf_counter()
    for _ in range(n_steps):
        x, y = problem.batch()
        for p, g in zip(params, gradient(params, problem.anchors, x, y), strict=True):
            p.grad = g
        optimiser.step()
    return (time.perf_counter() - started) / n_steps
