"""The vertical listings in plain NumPy, for the squared loss and the penalty (l2 / 2) |x|^2.

Only the draws are shared with the library: which entries, which parties, which columns, the coin.
"""

import copy
import math

import jax
import numpy as np

from fedloom import cohorts, draws


class Columns:
    """Blocks of columns of the same rows, and their labels."""

    def __init__(self, rows=8, widths=(2, 3, 1), l2=0.5, seed=3):
        rng = np.random.default_rng(seed)
        self.blocks = [rng.normal(size=(rows, width)) for width in widths]
        self.b = rng.normal(size=rows)
        self.l2, self.s, self.n, self.widths = l2, rows, len(widths), widths
        self.beta = 1.0

    def scaled(self, beta):
        """The same problem by the beta-trick: A is beta A, and l(z) is l(z / beta)."""
        other = copy.copy(self)
        other.blocks, other.beta = [beta * block for block in self.blocks], beta
        return other

    def slope(self, z):
        """The gradient of the loss."""
        return (z / self.beta - self.b) / self.beta

    def prox(self, v, step):
        """The proximal map of step times the loss."""
        return (v + step * self.b / self.beta) / (1 + step / self.beta**2)

    @property
    def whole(self):
        return np.concatenate(self.blocks, axis=1)

    def starts(self):
        return [np.zeros(width) for width in self.widths]

    def products(self, xs):
        return [a @ x for a, x in zip(self.blocks, xs, strict=True)]

    def fitted(self, xs):
        return sum(self.products(xs))

    def ridge(self):
        a = self.whole
        return np.linalg.solve(a.T @ a + self.l2 * np.eye(a.shape[1]), a.T @ self.b)


def egvfl(data, step, rounds, beta=1.0):
    """F1; with beta, A is beta A and l(z) is l(z / beta)."""
    a = [beta * block for block in data.blocks]
    grad = lambda z: (z / beta - data.b) / beta  # noqa: E731
    xs, z, y = data.starts(), np.zeros(data.s), np.zeros(data.s)
    means = data.starts()
    for k in range(rounds):
        product = sum(m @ x for m, x in zip(a, xs, strict=True))
        half = [x - step * (m.T @ y + data.l2 * x) for m, x in zip(a, xs, strict=True)]
        zh, yh = z - step * (grad(z) - y), y + step * (product - z)
        xs = [x - step * (m.T @ yh + data.l2 * h) for m, x, h in zip(a, xs, half, strict=True)]
        product = sum(m @ h for m, h in zip(a, half, strict=True))
        z, y = z - step * (grad(zh) - yh), y + step * (product - zh)
        means = [m + (h - m) / (k + 1) for m, h in zip(means, half, strict=True)]
    return xs, z, y, means


def slacks(data, step, rounds):
    """F6."""
    xs = data.starts()
    zs, ys = np.zeros((data.n, data.s)), np.zeros((data.n, data.s))

    def operator(xs, zs, ys):
        slope = data.slope(zs.sum(0))
        return (
            [a.T @ y + data.l2 * x for a, x, y in zip(data.blocks, xs, ys, strict=True)],
            slope - ys,
            np.array(data.products(xs)) - zs,
        )

    for _ in range(rounds):
        gx, gz, gy = operator(xs, zs, ys)
        xh = [x - step * g for x, g in zip(xs, gx, strict=True)]
        gx, gz, gy = operator(xh, zs - step * gz, ys + step * gy)
        xs = [x - step * g for x, g in zip(xs, gx, strict=True)]
        zs, ys = zs - step * gz, ys + step * gy
    return xs, zs.sum(0)


def nonlinear(data, step, rounds, first):
    """F7 with g(A, w) = tanh(A w)."""
    heads, nets = [np.zeros(first[0].shape[1]) for _ in first], list(first)
    z, y = np.zeros(data.s), np.zeros(data.s)

    def outputs(heads, nets):
        pairs = zip(data.blocks, nets, heads, strict=True)
        return sum(np.tanh(a @ w) @ x for a, w, x in pairs)

    def slopes(heads, nets, y):
        for a, w, x in zip(data.blocks, nets, heads, strict=True):
            g = np.tanh(a @ w)
            yield g.T @ y + data.l2 * x, a.T @ ((1 - g**2) * np.outer(y, x))

    for _ in range(rounds):
        steps = list(slopes(heads, nets, y))
        hh = [x - step * s[0] for x, s in zip(heads, steps, strict=True)]
        wh = [w - step * s[1] for w, s in zip(nets, steps, strict=True)]
        zh, yh = z - step * (z - data.b - y), y + step * (outputs(heads, nets) - z)
        steps = list(slopes(hh, wh, yh))
        heads = [x - step * s[0] for x, s in zip(heads, steps, strict=True)]
        nets = [w - step * s[1] for w, s in zip(nets, steps, strict=True)]
        z, y = z - step * (zh - data.b - yh), y + step * (outputs(hh, wh) - zh)
    return heads, nets


def proximal(data, step, rounds, l1):
    """F8 with r = l1 |x|_1 + (l2 / 2) |x|^2."""

    def prox_r(v):
        return np.sign(v) * np.maximum(np.abs(v) - step * l1, 0) / (1 + step * data.l2)

    xs, z, y = data.starts(), np.zeros(data.s), np.zeros(data.s)
    for _ in range(rounds):
        half = [prox_r(x - step * a.T @ y) for a, x in zip(data.blocks, xs, strict=True)]
        zh, yh = data.prox(z + step * y, step), y + step * (data.fitted(xs) - z)
        xs = [prox_r(x - step * a.T @ yh) for a, x in zip(data.blocks, xs, strict=True)]
        z, y = data.prox(z + step * yh, step), y + step * (data.fitted(half) - zh)
    return xs


def augmented(data, step, rho, rounds):
    """F9, with the second half-step at the half-point."""
    xs, z, y = data.starts(), np.zeros(data.s), np.zeros(data.s)

    def slopes(xs, z, y):
        v = data.fitted(xs) - z
        gx = [a.T @ y + data.l2 * x + rho * a.T @ v for a, x in zip(data.blocks, xs, strict=True)]
        return gx, data.slope(z) - y - rho * v, v

    for _ in range(rounds):
        gx, gz, gy = slopes(xs, z, y)
        half = [x - step * g for x, g in zip(xs, gx, strict=True)]
        gx, gz, gy = slopes(half, z - step * gz, y + step * gy)
        xs = [x - step * g for x, g in zip(xs, gx, strict=True)]
        z, y = z - step * gz, y + step * gy
    return xs, z


def dual(data, step, rounds):
    """F10: l*(y) = |y|^2 / 2 + b'y."""
    xs, y = data.starts(), np.zeros(data.s)
    for _ in range(rounds):
        half = [x - step * (a.T @ y + data.l2 * x) for a, x in zip(data.blocks, xs, strict=True)]
        yh = y - step * (y + data.b - data.fitted(xs))
        xs = [
            x - step * (a.T @ yh + data.l2 * h)
            for a, x, h in zip(data.blocks, xs, half, strict=True)
        ]
        y = y - step * (yh + data.b - data.fitted(half))
    return xs


def descent(data, step, rounds, momentum=0.0):
    """GD and, with momentum, AGD."""
    a, x = data.whole, np.zeros(sum(data.widths))
    v = x
    for _ in range(rounds):
        new = v - step * (a.T @ (a @ v - data.b) + data.l2 * v)
        x, v = new, new + momentum * (new - x)
    return x


def smoothness(joint, loss, ridge):
    """L of the whole objective, of which gradient descent takes steps 1/L."""
    return loss * joint + ridge


def momentum(largest, smallest):
    """Of AGD, for L and mu."""
    return (largest**0.5 - smallest**0.5) / (largest**0.5 + smallest**0.5)


def saddle_step(part, *roots, ridge, loss, others=()):
    """part min{1, 1/sqrt(root), ..., 1/L_r, 1/L_l, 1/other, ...}: how the papers write steps."""
    bounds = [1.0, ridge, loss, *others, *[root**0.5 for root in roots]]
    return part * min(1 / bound for bound in bounds if bound > 0)


def fista(slope, prox, x, length, steps):
    """Beck and Teboulle 2009, that begins anew where momentum goes uphill (O'Donoghue, Candes)."""
    v, t = x, 1.0
    for _ in range(steps):
        new = prox(v - length * slope(v), length)
        if (v - new) @ (new - x) > 0:
            v, t = new, 1.0
        else:
            after = (1 + math.sqrt(1 + 4 * t**2)) / 2
            v, t = new + (t - 1) / after * (new - x), after
        x = new
    return x


def inexact_sharing_admm(data, rho, rounds, l1, steps):
    """F11 with r = l1 |x|_1 + (l2 / 2) |x|^2, and a few proximal gradient steps at a party."""

    def prox(v, t):
        return np.sign(v) * np.maximum(np.abs(v) - t * l1, 0) / (1 + t * data.l2)

    n, xs = data.n, data.starts()
    zb, u, mean = np.zeros(data.s), np.zeros(data.s), np.zeros(data.s)
    for _ in range(rounds):
        q = zb - mean - u
        solved = []
        for a, x in zip(data.blocks, xs, strict=True):
            slope = lambda v, a=a, x=x: rho * a.T @ (a @ (v - x) - q)  # noqa: E731, B023
            length = 1 / (rho * np.linalg.eigvalsh(a.T @ a)[-1])
            solved.append(fista(slope, prox, x, length, steps))
        xs = solved
        mean = data.fitted(xs) / n
        zb = (data.b + rho * (u + mean)) / (n + rho)
        u = u + mean - zb
    return xs


def sharing_admm(data, rho, rounds):
    """F11, by the closed forms of ridge regression."""
    n, xs = data.n, data.starts()
    zb, u, mean = np.zeros(data.s), np.zeros(data.s), np.zeros(data.s)
    for _ in range(rounds):
        q = zb - mean - u
        xs = [
            np.linalg.solve(data.l2 * np.eye(a.shape[1]) + rho * a.T @ a, rho * a.T @ (a @ x + q))
            for a, x in zip(data.blocks, xs, strict=True)
        ]
        mean = data.fitted(xs) / n
        zb = (data.b + rho * (u + mean)) / (n + rho)
        u = u + mean - zb
    return xs, zb, u


class Chances:
    """The draws of a run with reference points."""

    def __init__(self, seed=0):
        self.root = draws.key(seed)
        self.seed = draws.hub_key(self.root, 0)

    def common(self, iteration, way):
        return draws.fold(self.seed, iteration, way)

    def own(self, iteration, exchange, party):
        return draws.client_key(self.root, iteration + 1, exchange, party)

    def hub(self, iteration):
        return draws.hub_key(self.root, iteration + 1)

    def coin(self, key, p):
        return bool(jax.random.uniform(key) < p)


def distinct(key, size, count):
    return np.asarray(draws.distinct(key, draws.domain(size), count))


def keep(v, places, factor=1.0):
    out = np.zeros_like(v)
    out[places] = factor * v[places]
    return out


def referenced(data, step, rounds, p, reference, estimates, chances, coin_key=None):
    """F2 to F5: `estimates(k, half, w, yh, u)` gives [A_i'yh] for each party and [sum A_i xh_i]."""
    xs, ws = data.starts(), data.starts()
    z, y, u = np.zeros(data.s), np.zeros(data.s), np.zeros(data.s)
    tau = 1 - p
    for k in range(rounds):
        old_x, old_y = xs, y
        anchor = [tau * x + (1 - tau) * w for x, w in zip(xs, ws, strict=True)]
        half = [
            c - step * (a.T @ u + data.l2 * x)
            for a, c, x in zip(data.blocks, anchor, xs, strict=True)
        ]
        zh = z - step * (data.slope(z) - y)
        origin = tau * y + (1 - tau) * u
        yh = origin + step * (data.fitted(ws) - z)
        pulls, product = estimates(k, half, ws, yh, u)
        xs = [c - step * (g + data.l2 * h) for c, g, h in zip(anchor, pulls, half, strict=True)]
        z, y = z - step * (data.slope(zh) - yh), origin + step * (product - zh)
        key = chances.hub(k) if coin_key is None else coin_key(k)
        if chances.coin(key, p):
            ws, u = (old_x, old_y) if reference == "old" else (xs, y)
    return xs, z, y


def compressed(data, step, rounds, p, per_cent, shared, reference):
    """F2 with RandK."""
    chances, count = Chances(), math.ceil(per_cent * data.s / 100)
    factor = data.s / count

    def estimates(k, half, ws, yh, u):
        price = u + keep(yh - u, distinct(chances.common(k, 0), data.s, count), factor)
        total = np.zeros(data.s)
        for i, (a, h, w) in enumerate(zip(data.blocks, half, ws, strict=True)):
            key = chances.common(k, 1) if shared else chances.own(k, 1, i)
            total += a @ w + keep(a @ h - a @ w, distinct(key, data.s, count), factor)
        return [a.T @ price for a in data.blocks], total

    return referenced(data, step, rounds, p, reference, estimates, chances)


def error_feedback(data, step, rounds, p, per_cent):
    """F3 with TopK."""
    chances, count = Chances(), math.ceil(per_cent * data.s / 100)
    errors = [np.zeros(data.s) for _ in range(data.n + 1)]

    def top(v):
        return keep(v, np.argsort(-np.abs(v))[:count])

    def send(place, v):
        wanted = v + errors[place]
        sent = top(wanted)
        errors[place] = wanted - sent
        return sent

    def estimates(k, half, ws, yh, u):
        price = u + send(data.n, yh - u)
        parts = [
            a @ w + send(i, a @ h - a @ w)
            for i, (a, h, w) in enumerate(zip(data.blocks, half, ws, strict=True))
        ]
        return [a.T @ price for a in data.blocks], sum(parts)

    return referenced(data, step, rounds, p, "old", estimates, chances)


def partial(data, step, rounds, m):
    """F4 with m of n parties."""
    chances = Chances()

    def estimates(k, half, ws, yh, u):
        chosen = np.asarray(cohorts.uniform(jax.random.split(chances.hub(k))[0], data.n, m).ids)
        parts = [a @ (h - w) for a, h, w in zip(data.blocks, half, ws, strict=True)]
        total = data.fitted(ws) + data.n / m * sum(parts[i] for i in chosen)
        return [a.T @ yh for a in data.blocks], total

    tossed = lambda k: jax.random.split(chances.hub(k))[1]  # noqa: E731
    return referenced(data, step, rounds, m / data.n, "old", estimates, chances, tossed)


def coordinate(data, step, rounds, p, rows, columns, shared):
    """F5."""
    chances, count = Chances(), math.ceil(rows * data.s / 100)

    def estimates(k, half, ws, yh, u):
        pulls, total = [], np.zeros(data.s)
        for i, (a, h, w) in enumerate(zip(data.blocks, half, ws, strict=True)):
            for_columns, for_rows = jax.random.split(chances.own(k, 1, i))
            d, few = a.shape[1], math.ceil(columns * a.shape[1] / 100)
            pulls.append(a.T @ u + keep(a.T @ (yh - u), distinct(for_columns, d, few), d / few))
            key = chances.common(k, 1) if shared else for_rows
            total += a @ w + keep(a @ (h - w), distinct(key, data.s, count), data.s / count)
        return pulls, total

    return referenced(data, step, rounds, p, "old", estimates, chances)
