"""The robust family in plain NumPy, from the papers' listings, on the ball |w| <= radius."""

import jax
import numpy as np

from fedloom import cohorts


def ball(w, radius):
    norm = np.linalg.norm(w)
    return w if norm <= radius else w * (radius / norm)


def simplex(v):
    """By sorting."""
    u = np.sort(v)[::-1]
    c = (np.cumsum(u) - 1) / np.arange(1, len(v) + 1)
    rho = np.flatnonzero(u - c > 0)[-1]
    return np.maximum(v - c[rho], 0)


def kl_map(a, c, q):
    """argmin_{u in simplex} c KL(u || q) + |u - a|^2 / 2, by two nested bisections."""

    def entry(b, q):
        low, high = -2000.0, 5.0  # of log u, in  c (log u - log q) + u = b
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if c * (middle - np.log(q)) + np.exp(middle) < b else (low, middle)
            )
        return np.exp(low)

    low, high = a.min() - 50 * (1 + c), a.max() + 50 * (1 + c)
    for _ in range(200):
        nu = (low + high) / 2
        total = sum(entry(x - c - nu, p) for x, p in zip(a, q, strict=True))
        low, high = (nu, high) if total > 1 else (low, nu)
    return np.array([entry(x - c - low, p) for x, p in zip(a, q, strict=True)])


def by_weight(key, weights, size):
    return np.asarray(cohorts.by_weight(key, weights, size).ids).tolist()


def afl(clients, draws, *, lr, weight_lr, rounds, radius):
    w, lam, models = np.zeros(clients.d), np.full(clients.n, 1 / clients.n), []
    for r in range(1, rounds + 1):
        # Loss and gradient are on the one batch that the client's own key draws.
        batches = [draws.batch(r, 1, i) for i in range(clients.n)]
        slope = sum(lam[i] * clients.grad(i, w, b) for i, b in enumerate(batches))
        losses = np.array([clients.value(i, w, b) for i, b in enumerate(batches)])
        w, lam = ball(w - lr * slope, radius), simplex(lam + weight_lr * losses)
        models.append(w)
    return w, lam, np.mean(models, axis=0)


def drfa(
    clients, draws, *, lr, weight_lr, steps, rounds, radius, cohort, sampling="by_weight",
    decay=1.0, floor=0.0, step_of_lambda=None,
):  # fmt: skip
    """Algorithm 1; with `step_of_lambda(a, rate)` in the place of the projection, Algorithm 2."""
    n, w, lam = clients.n, np.zeros(clients.d), np.full(clients.n, 1 / clients.n)
    snapshots = []
    for r in range(1, rounds + 1):
        draw_key, stop_key, probe_key = jax.random.split(draws.hub_key(r), 3)
        stop = int(jax.random.randint(stop_key, (), 1, steps + 1))
        m = cohort or n
        if cohort is not None and sampling == "by_weight":
            chosen = by_weight(draw_key, lam, m)
            shares = np.full(m, 1 / m)
        else:
            chosen = np.asarray(cohorts.uniform(draw_key, n, m).ids).tolist()
            shares = lam[chosen] * n / m
        ends, stops = [], []
        for i in chosen:
            w_i = w.copy()
            for t, batch in enumerate(draws.batches(r, 1, i, steps), 1):
                w_i = ball(w_i - lr * clients.grad(i, w_i, batch), radius)
                if t == stop:
                    stops.append(w_i)
            ends.append(w_i)
        snapshot = ball(w + shares @ (np.array(stops) - w), radius)
        w = ball(w + shares @ (np.array(ends) - w), radius)
        v = np.zeros(n)
        for i in np.asarray(cohorts.uniform(probe_key, n, m).ids).tolist():
            v[i] = n / m * clients.value(i, snapshot, draws.batch(r, 2, i))
        rate = weight_lr * decay ** (r - 1) * steps
        if step_of_lambda is not None:
            lam = step_of_lambda(lam + rate * v, rate)
        else:
            lam = floor + (1 - n * floor) * simplex((lam + rate * v - floor) / (1 - n * floor))
        snapshots.append(snapshot)
    return w, lam, np.mean(snapshots, axis=0)


def drfa_ga(clients, draws, *, lr, weight_lr, mu, steps, rounds, radius, cohort):
    n, w, lam = clients.n, np.zeros(clients.d), np.full(clients.n, 1 / clients.n)
    models = []
    for r in range(1, rounds + 1):
        ends = []
        for i in by_weight(draws.hub_key(r), lam, cohort):
            w_i = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                w_i = ball(w_i - lr * clients.grad(i, w_i, batch), radius)
            ends.append(w_i)
        losses = np.array([clients.value(i, w) for i in range(n)])
        lam = simplex(lam + weight_lr * (losses - mu * (lam - 1 / n)))
        w = np.mean(ends, axis=0)
        models.append(w)
    return w, lam, np.mean(models, axis=0)


def q_fedavg(clients, draws, *, lr, q, steps, rounds, cohort):
    w, length = np.zeros(clients.d), 1 / lr
    for r in range(1, rounds + 1):
        deltas, curvatures = [], []
        for i in draws.cohort(r, cohort):
            v = w.copy()
            for batch in draws.batches(r, 1, i, steps):
                v = v - lr * clients.grad(i, v, batch)
            loss, g = clients.value(i, w) + 1e-10, length * (w - v)
            deltas.append(loss**q * g)
            curvatures.append(q * loss ** (q - 1) * g @ g + length * loss**q)
        w = w - np.sum(deltas, axis=0) / np.sum(curvatures)
    return w


def q_fedsgd(clients, draws, *, lr, q, rounds, cohort):
    w, length = np.zeros(clients.d), 1 / lr
    for r in range(1, rounds + 1):
        deltas, curvatures = [], []
        for i in draws.cohort(r, cohort):
            loss, g = clients.value(i, w) + 1e-10, clients.grad(i, w)
            deltas.append(loss**q * g)
            curvatures.append(q * loss ** (q - 1) * g @ g + length * loss**q)
        w = w - np.sum(deltas, axis=0) / np.sum(curvatures)
    return w


def scaff_pd(clients, draws, *, lr, weight_lr, mu, steps, rounds, server_lr=1.0, extrapolation=1.0):
    """Yu et al. 2023, Algorithm 1, with constant steps; returns the model, lambda and all c_i."""
    n, x, lam, before = clients.n, np.zeros(clients.d), np.full(clients.n, 1 / clients.n), None
    for r in range(1, rounds + 1):
        looks = [draws.batch(r, 1, i) for i in range(n)]
        losses = np.array([clients.value(i, x, b) for i, b in enumerate(looks)])
        c_i = np.array([clients.grad(i, x, b) for i, b in enumerate(looks)])
        before = losses if before is None else before
        s = (1 + extrapolation) * losses - extrapolation * before
        # The maximum of a concave quadratic on the simplex: a projection of where it would be.
        lam = simplex((lam / weight_lr + s + mu / n) / (1 / weight_lr + mu))
        c, ends = lam @ c_i, []
        for i in range(n):
            u = x
            for batch in draws.batches(r, 2, i, steps):
                u = u - lr * (clients.grad(i, u, batch) - c_i[i] + c)
            ends.append(u)
        x, before = x + server_lr * lam @ (np.array(ends) - x), losses
    return x, lam, c_i


def term(clients, draws, *, lr, tilt, steps, rounds, cohort, tracking=None, weights=None):
    """Li et al. 2021: Algorithm 2 over clients; returns the model and the estimated risk."""
    a = np.ones(clients.n) if weights is None else np.asarray(weights, float)
    a, x = a / a.sum(), np.zeros(clients.d)
    risk = sum(a[i] * clients.value(i, x) for i in range(clients.n))
    for r in range(1, rounds + 1):
        chosen = draws.cohort(r, cohort)
        rate = len(chosen) / clients.n if tracking is None else tracking
        share = {i: a[i] * clients.n / len(chosen) for i in chosen}
        tilted = {i: np.exp(tilt * clients.value(i, x)) for i in chosen}
        mixed = sum(share[i] * tilted[i] for i in chosen)
        risk = np.log((1 - rate) * np.exp(tilt * risk) + rate * mixed) / tilt
        moved = np.zeros(clients.d)
        for i in chosen:
            v = x
            for batch in draws.batches(r, 1, i, steps):
                v = v - lr * clients.grad(i, v, batch)
            moved = moved + share[i] * tilted[i] / np.exp(tilt * risk) * (v - x)
        x = x + moved
    return x, risk
