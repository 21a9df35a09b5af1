"""Two clients of 2 and 20 rows that want unlike models, and where problems over them end.

Each solution is worked out by hand in plain NumPy, for given weights of the two clients.
"""

import numpy as np
from scipy.optimize import minimize, minimize_scalar

SIZES = np.array([2, 20])
EQUAL, SIZE = np.array([0.5, 0.5]), SIZES / SIZES.sum()


# Quadratics: f_i(w) = |A_i w - y_i|^2 / (2 rows) + (L2 / 2) |w|^2, and g = L1 |w|_1.

L2, L1 = 0.1, 0.1
_TURNED = np.array([[1.2, 0.3], [-0.3, 1.2]])
_WIDE = np.tile(_TURNED, (10, 1))
_APART = 1.2 * np.repeat([1.0, -1.0], 10)  # adds to the loss of the second client, not to its slope
PARTS = [
    (np.sqrt(2) * np.eye(2), np.sqrt(2) * np.array([2.0, -1.0])),
    (_WIDE, _WIDE @ np.array([-1.0, 1.0]) + _APART),
]
HESSIANS = [x.T @ x / len(y) + L2 * np.eye(2) for x, y in PARTS]
PULLS = [x.T @ y / len(y) for x, y in PARTS]


def value(i, w):
    x, y = PARTS[i]
    return 0.5 * np.mean((x @ w - y) ** 2) + 0.5 * L2 * w @ w


def weighted(a, terms):
    return sum(a_i * term for a_i, term in zip(a, terms, strict=True))


def averaged(a):
    """Of sum_i a_i f_i."""
    return np.linalg.solve(weighted(a, HESSIANS), weighted(a, PULLS))


def composite(a, times=1):
    """Of sum_i a_i f_i + times g."""
    w = np.zeros(2)
    for _ in range(2000):
        v = w - 0.2 * (weighted(a, HESSIANS) @ w - weighted(a, PULLS))
        w = np.sign(v) * np.maximum(np.abs(v) - 0.2 * times * L1, 0)
    return w


def fair(a, q):
    """Of sum_i a_i f_i^(q+1)."""
    return minimize(lambda w: weighted(a, [value(i, w) ** (q + 1) for i in (0, 1)]), [0, 0]).x


def tilted(a, t):
    """Of log(sum_i a_i exp(t f_i)) / t, for t > 0."""
    risk = lambda w: np.log(weighted(a, [np.exp(t * value(i, w)) for i in (0, 1)])) / t  # noqa: E731
    return minimize(risk, [0, 0], tol=1e-10).x


def enveloped(a, penalty):
    """Of sum_i a_i min_x f_i(x) + (penalty / 2) |x - w|^2."""
    near = [penalty * np.linalg.inv(h + penalty * np.eye(2)) for h in HESSIANS]
    slopes = [np.eye(2) - n for n in near]
    return np.linalg.solve(
        weighted(a, slopes),
        weighted(a, [n @ b / penalty for n, b in zip(near, PULLS, strict=True)]),
    )


def near_averaged(a, penalty):
    """The v_i of min_v f_i(v) + (penalty / 2) |v - w|^2, with w of sum_i a_i f_i."""
    w = averaged(a)
    return np.concatenate(
        [
            np.linalg.solve(h + penalty * np.eye(2), b + penalty * w)
            for h, b in zip(HESSIANS, PULLS, strict=True)
        ]
    )


def adapted(a, rate):
    """Of sum_i a_i f_i(w - rate f_i'(w))."""
    shrink = [np.eye(2) - rate * h for h in HESSIANS]
    return np.linalg.solve(
        weighted(a, [s @ h @ s for s, h in zip(shrink, HESSIANS, strict=True)]),
        weighted(a, [s @ s @ b for s, b in zip(shrink, PULLS, strict=True)]),
    )


def robust(a, mu=0.0):
    """Of max_lambda sum_i lambda_i f_i - (mu / 2) |lambda - 1/2|^2, whatever the weights."""

    def worst(one):
        mixture = np.array([one, 1 - one])
        w = averaged(mixture)
        loss = weighted(mixture, [value(i, w) for i in (0, 1)])
        return 0.5 * mu * np.sum((mixture - 0.5) ** 2) - loss

    one = minimize_scalar(worst, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    return averaged([one, 1 - one])


# Saddles: f_i(x, y) = (CONVEX / 2) |x|^2 + x'K_i y - (CONCAVE / 2) |y|^2 + b_i'x - c_i'y.

CONVEX, CONCAVE = 1.0, 1.5
COUPLINGS = [np.array([[1.0], [0.5]]), np.array([[-0.6], [1.0]])]
SLOPES = [np.array([2.0, -1.0]), np.array([-1.0, 1.5])]
DUAL_SLOPES = [np.array([1.0]), np.array([-1.0])]


def saddle(a, dual="shared"):
    """With the dual eliminated by hand."""
    if dual == "shared":
        parts = [[weighted(a, each)] for each in (COUPLINGS, SLOPES, DUAL_SLOPES)]
        terms = list(zip([1.0], *parts, strict=True))
    else:
        terms = list(zip(a, COUPLINGS, SLOPES, DUAL_SLOPES, strict=True))
    x = np.zeros(2)
    for _ in range(2000):
        slope = sum(w * (b + k @ (k.T @ x - c) / CONCAVE) for w, k, b, c in terms)
        v = x - 0.1 * (CONVEX * x + slope)
        x = np.sign(v) * np.maximum(np.abs(v) - 0.1 * L1, 0)
    return x


def separate(a):
    return saddle(a, "separate")


# Classes: f_i is the mean cross-entropy of two linear scores, and (OWN_L2 / 2) |weights|^2.

OWN_L2, CLOSE, GUIDE = 0.5, 0.5, 0.5


def _class_rows():
    rng = np.random.default_rng(5)
    for m, way in zip(SIZES, (1.0, -1.0), strict=True):
        y = np.arange(m) % 2
        x = rng.normal(size=(m, 2)) + way * np.outer(2 * y - 1, [1.0, 0.5])
        yield x, y


CLASSES = list(_class_rows())
WITH_ONE = [np.column_stack([np.ones(len(y)), x]) for x, y in CLASSES]
LABELS = [np.eye(2)[y] for _, y in CLASSES]


def chances(i, w):
    """The probabilities of both classes, for each row of client i."""
    scores = np.exp(WITH_ONE[i] @ w)
    return scores / scores.sum(1, keepdims=True)


def towards(i, w, targets):
    """The gradient by w of the cross-entropy with targets, or of KL(targets || w)."""
    return WITH_ONE[i].T @ (chances(i, w) - targets) / len(targets)


def own_slope(i, w):
    return towards(i, w, LABELS[i]) + OWN_L2 * np.array([[0], [1], [1]]) * w


def teacher_slope(i, w, student):
    """The gradient by w of KL(w || student)."""
    p = chances(i, w)
    apart = np.log(p / student)
    return WITH_ONE[i].T @ (p * (apart - (p * apart).sum(1, keepdims=True))) / len(p)


def settle(slopes, rate=0.5, steps=2000):
    """Where own models x and a common one w end; `slopes(x, w)` gives the directions of both."""
    x, w = np.zeros((2, 3, 2)), np.zeros((3, 2))
    for _ in range(steps):
        dx, dw = slopes(x, w)
        x, w = x - rate * np.array(dx), w - rate * dw
    return x, w


def preferred(w):
    return w[:, 1] - w[:, 0]


def alone(a):
    """Every client's own model, whatever the weights."""
    return settle(lambda x, w: ([own_slope(i, x[i]) for i in (0, 1)], 0))[0].ravel()


def near_common(a):
    """The w of sum_i a_i (f_i(x_i) + (CLOSE / 2) |x_i - w|^2)."""

    def slopes(x, w):
        dx = [own_slope(i, x[i]) + CLOSE * (x[i] - w) for i in (0, 1)]
        return dx, CLOSE * (w - weighted(a, x))

    return preferred(settle(slopes)[1])


def distilled(a):
    """The w of sum_i a_i ((1 - GUIDE) f_i(x_i) + GUIDE KD_i(x_i, w))."""

    def slopes(x, w):
        dx = [
            (1 - GUIDE) * own_slope(i, x[i]) + GUIDE * towards(i, x[i], chances(i, w))
            for i in (0, 1)
        ]
        return dx, weighted(a, [teacher_slope(i, w, chances(i, x[i])) for i in (0, 1)])

    return preferred(settle(slopes)[1])


def own_biases(a):
    """The weights of sum_i a_i f_i with biases of each client's own; the common ones stay at 0."""
    of_bias = np.array([[1], [0], [0]])

    def slopes(x, w):
        each = [own_slope(i, of_bias * x[i] + w) for i in (0, 1)]
        return [of_bias * slope for slope in each], (1 - of_bias) * weighted(a, each)

    return preferred(settle(slopes)[1])


def mutual(a):
    """Where own models and a common one teach each other, both with weight GUIDE."""

    def slopes(x, w):
        dx, dw = zip(
            *[
                [
                    (1 - GUIDE) * own_slope(i, one) + GUIDE * towards(i, one, chances(i, other))
                    for one, other in ((x[i], w), (w, x[i]))
                ]
                for i in (0, 1)
            ],
            strict=True,
        )
        return dx, weighted(a, dw)

    return preferred(settle(slopes)[1])
