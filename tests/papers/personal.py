"""The personal family in plain NumPy, from the papers' listings.

A network here is one hidden layer: softmax( relu(x W1 + b1) W2 + b2 ), as the vector (b1, W1, b2,
W2), which is how the library folds it. Gradients are written out by hand.
"""

import numpy as np


class Networks:
    """Clients with rows and classes, and networks of one hidden layer on them."""

    def __init__(self, sizes=(6, 9, 6, 9), d=3, classes=3, l2=0.1, seed=7):
        rng = np.random.default_rng(seed)
        self.x = [rng.normal(i / 2, 1, (m, d)) for i, m in enumerate(sizes)]
        self.y = [rng.integers(0, classes, m) for m in sizes]
        for y in self.y:
            y[:classes] = np.arange(classes)
        self.n, self.d, self.classes, self.l2 = len(sizes), d, classes, l2

    def parts(self):
        return list(zip(self.x, self.y, strict=True))

    def fold(self, w):
        """The arrays of a vector; the width follows from its length."""
        width = (len(w) - self.classes) // (1 + self.d + self.classes)
        cuts = np.cumsum([width, self.d * width, self.classes])
        b1, w1, b2, w2 = np.split(w, cuts)
        return b1, w1.reshape(self.d, width), b2, w2.reshape(width, self.classes)

    def log_probs(self, i, w, rows):
        b1, w1, b2, w2 = self.fold(w)
        scores = np.maximum(self.x[i][rows] @ w1 + b1, 0) @ w2 + b2
        scores = scores - scores.max(1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(1, keepdims=True))

    def back(self, i, w, rows, slope):
        """The gradient by w, from that by the scores of each row."""
        b1, w1, _, w2 = self.fold(w)
        x = self.x[i][rows]
        hidden = np.maximum(x @ w1 + b1, 0)
        inner = (slope @ w2.T) * (hidden > 0)
        return np.concatenate(
            [inner.sum(0), (x.T @ inner).ravel(), slope.sum(0), (hidden.T @ slope).ravel()]
        )

    def penalty_grad(self, w):
        b1, w1, b2, w2 = self.fold(w)
        zero = [np.zeros_like(b1), w1.ravel(), np.zeros_like(b2), w2.ravel()]
        return self.l2 * np.concatenate(zero)

    def grad(self, i, w, rows):
        """Of cross-entropy and penalty."""
        p, y = np.exp(self.log_probs(i, w, rows)), self.y[i][rows]
        slope = (p - np.eye(self.classes)[y]) / len(y)
        return self.back(i, w, rows, slope) + self.penalty_grad(w)

    def kd_grad(self, i, w, rows, teacher):
        """Of the mean KL(teacher || w) by w."""
        slope = (np.exp(self.log_probs(i, w, rows)) - np.exp(teacher)) / len(teacher)
        return self.back(i, w, rows, slope)

    def kd_teacher_grad(self, i, w, rows, student):
        """Of the mean KL(w || student) by w: s_w (log(s_w / s) - KL)."""
        own = self.log_probs(i, w, rows)
        apart = own - student
        kl = (np.exp(own) * apart).sum(1, keepdims=True)
        return self.back(i, w, rows, np.exp(own) * (apart - kl) / len(own))


class Levels:
    """The quantised part of a vector, with its centres; one layer."""

    def __init__(
        self, start, stop, *, pull, centre_lr, sign=1.0, per_cell=False, sharpness=None, growth=1.0,
        weight_bound=None, centre_bound=None,
    ):  # fmt: skip
        self.part = slice(start, stop)
        self.strength, self.centre_lr, self.growth = pull, centre_lr, growth
        self.sign, self.per_cell, self.sharpness = sign, per_cell, sharpness
        self.largest = np.inf if weight_bound is None else weight_bound
        self.steepest = np.inf if centre_bound is None else centre_bound

    def pull(self, t):
        """Lambda in pass t."""
        return self.strength * t * self.growth**t

    def first(self, x, m):
        x = x[self.part]
        if m > 2:
            return np.linspace(x.min(), x.max(), m)
        return np.array([x[x < 0].mean(), x[x >= 0].mean()])

    def cell(self, x, c):
        return np.abs(x[self.part][:, None] - c[None, :]).argmin(1)

    def hard(self, x, c):
        out = x.copy()
        out[self.part] = c[self.cell(x, c)]
        return out

    def quantise(self, x, c):
        if self.sharpness is None:
            return self.hard(x, c)
        out = x.copy()
        s = self._sigmoids(x, c)
        out[self.part] = c[0] + s @ np.diff(c)
        return out

    def _sigmoids(self, x, c):
        middle = (c[1:] + c[:-1]) / 2
        return 1 / (1 + np.exp(-self.sharpness * (x[self.part][:, None] - middle)))

    def to_x(self, x, c, g):
        """J_x' g."""
        out = g.copy()
        if self.sharpness is None:
            out[self.part] = 0
        else:
            s = self._sigmoids(x, c)
            out[self.part] *= self.sharpness * (s * (1 - s)) @ np.diff(c)
        return out

    def to_c(self, x, c, g):
        """J_c' g."""
        g = g[self.part]
        if self.sharpness is None:
            cell = self.cell(x, c)
            return np.array([g[cell == k].sum() for k in range(len(c))])
        s = self._sigmoids(x, c)
        ds = s * (1 - s) * self.sharpness * np.diff(c) / 2
        out = np.zeros(len(c))
        out[0] += g.sum()
        for k in range(len(c) - 1):  # the step from centre k to k + 1
            out[k + 1] += g @ (s[:, k] - ds[:, k])
            out[k] += g @ (-s[:, k] - ds[:, k])
        return out

    def prox_x(self, y, c, lr, t):
        """(68) of the paper, with threshold lambda eta_1 / 2."""
        half, q = self.pull(t) * lr / 2, self.hard(y, c)
        out = y.copy()
        for j in range(len(y))[self.part]:
            if y[j] > q[j] + half:
                out[j] = y[j] - half
            elif y[j] < q[j] - half:
                out[j] = y[j] + half
            else:
                out[j] = q[j]
            out[j] = min(max(out[j], -self.largest), self.largest)
        return out

    def prox_c(self, mu, c, x, t):
        part, cell = x[self.part], self.cell(x, c)
        out = mu.copy()
        for k in range(len(c)):
            members = part[cell == k]
            count = (members > c[k]).sum() - (members < c[k]).sum()
            if self.per_cell:
                count = count / max(len(members), 1)
            out[k] += self.sign * self.pull(t) * self.centre_lr / 2 * count
        return np.sort(out)


def personal_step(x, c, levels, slope, lr, t):
    """Lines 1 and 2 of the listing: x, then c at the new x. `levels` None: full precision."""
    if levels is None:
        return x - lr * slope(x), c
    g = slope(x) + levels.to_x(x, c, slope(levels.quantise(x, c)))
    x = levels.prox_x(x - lr * g, c, lr, t)
    h = levels.to_c(x, c, slope(levels.quantise(x, c)))
    h = np.clip(h, -levels.steepest, levels.steepest)
    return x, levels.prox_c(c - levels.centre_lr * h, c, x, t)


def quped(net, draws, w, x, c, levels, *, lr, common_lr, lp, steps, rounds, cohort, passes, decay):
    """QuPeD, Algorithm 2; `passes(i, k)` says how often client i went through its rows in k steps.

    x, c and levels are lists over clients; both step sizes shrink by `decay` a pass.
    """
    x, c, done = [v.copy() for v in x], list(c), [0] * net.n
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                teacher = net.log_probs(i, w_i, batch)

                def slope(v, i=i, batch=batch, teacher=teacher):
                    data, guide = net.grad(i, v, batch), net.kd_grad(i, v, batch, teacher)
                    return (1 - lp) * data + lp * guide

                t = passes(i, done[i])
                eta = lr * decay**t
                x[i], c[i] = personal_step(x[i], c[i], levels[i], slope, eta, t + 1)
                models = [x[i]] if levels[i] is None else [x[i], levels[i].quantise(x[i], c[i])]
                students = [net.log_probs(i, v, batch) for v in models]
                w_i = w_i - common_lr * decay**t * lp * sum(
                    net.kd_teacher_grad(i, w_i, batch, s) for s in students
                )
                done[i] += 1
            sent.append(w_i)
        w = np.mean(sent, axis=0)
    return w, x, c


def qupel(net, draws, w, levels, *, m, lr, common_lr, lp, steps, rounds, cohort, passes, decay):
    """QuPeL, Algorithm 3; own models begin at w, both step sizes shrink by `decay` a pass."""
    x, c, done = [None] * net.n, [None] * net.n, [0] * net.n
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            if x[i] is None:
                x[i], c[i] = w.copy(), levels.first(w, m)
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):

                def slope(v, i=i, batch=batch, w_i=w_i):
                    return net.grad(i, v, batch) + lp * (v - w_i)

                t = passes(i, done[i])
                eta = lr * decay**t
                x[i], c[i] = personal_step(x[i], c[i], levels, slope, eta, t + 1)
                seen = levels.quantise(x[i], c[i])
                w_i = w_i - common_lr * decay**t * lp * ((w_i - x[i]) + (w_i - seen))
                done[i] += 1
            sent.append(w_i)
        w = np.mean(sent, axis=0)
    return w, x, c


def mutual_learning(net, draws, w, x, *, lr, a, b, steps, rounds, cohort, passes, decay):
    """FML; a and b weigh the other model's outputs, and steps shrink by `decay` a pass."""
    x, done = [v.copy() for v in x], [0] * net.n
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                own, common = net.log_probs(i, x[i], batch), net.log_probs(i, w_i, batch)
                gx = (1 - a) * net.grad(i, x[i], batch) + a * net.kd_grad(i, x[i], batch, common)
                gw = (1 - b) * net.grad(i, w_i, batch) + b * net.kd_grad(i, w_i, batch, own)
                eta = lr * decay ** passes(i, done[i])
                x[i], w_i = x[i] - eta * gx, w_i - eta * gw
                done[i] += 1
            sent.append(w_i)
        w = np.mean(sent, axis=0)
    return w, x


def pfedme(clients, draws, *, lr, penalty, outer_lr, inner, steps, rounds, cohort, mixing):
    """Dinh et al. 2020, Algorithm 1; returns w and the personal models."""
    w, personal = np.zeros(clients.d), np.zeros((clients.n, clients.d))
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            w_i, theta = w.copy(), w.copy()
            for batch in draws.batches(r, 1, i, steps):
                for _ in range(inner):
                    theta = theta - lr * (clients.grad(i, theta, batch) + penalty * (theta - w_i))
                w_i = w_i - outer_lr * penalty * (w_i - theta)
            personal[i] = theta
            sent.append(w_i)
        w = (1 - mixing) * w + mixing * np.mean(sent, axis=0)
    return w, personal


def per_fedavg(clients, triples, draws, *, lr, a, steps, rounds, cohort, hessian_free, e=1e-3):
    """Fallah et al. 2020; `triples(r, i, k)` are the three batches of step k."""
    w = np.zeros(clients.d)
    for r in range(1, rounds + 1):
        sent = []
        for i in draws.cohort(r, cohort):
            w_i = w.copy()
            for k in range(steps):
                first, second, third = triples(r, i, k)
                u = clients.grad(i, w_i - a * clients.grad(i, w_i, first), second)
                if hessian_free:
                    plus, minus = (
                        clients.grad(i, w_i + e * u, third),
                        clients.grad(i, w_i - e * u, third),
                    )
                    u = u - a * (plus - minus) / (2 * e)
                w_i = w_i - lr * u
            sent.append(w_i)
        w = np.mean(sent, axis=0)
    return w
