"""Logarithms of Laplace transforms of positive variables, on and right of the imaginary axis.

An inverse-gamma variable has a power tail and a log-normal one is as bad: neither has a moment generating function to
the right of zero, but log E exp(-s X) exists wherever Re s >= 0. It is computed by the trapezoid rule in y = log x on
a line through the saddle point of the integrand. Along that line the integrand's modulus has one peak, so nothing
cancels and the result is good to about 1e-12.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .fourier import Complex

_NODES = np.linspace(-4.3, 4.3, 121)
"""Trapezoid nodes v; the distance from the saddle is width * sinh(v), so that tails of any weight are reached."""
_STEP = _NODES[1] - _NODES[0]
_TURN = 1.5
"""Where on the real line the path turns, from the saddle."""
_BEND_AT_SADDLE = math.tanh(2.0 * (0.0 - _TURN))
_BLOCK = 64
"""Transform arguments handled at once: few enough to stay in the processor's cache."""


def log_laplace_inverse_gamma(s: Complex, shape: float, scale: float) -> Complex:
    """log E exp(-s X) for X inverse-gamma with density proportional to x^(-shape-1) exp(-scale/x); Re s >= 0."""
    out = np.empty(s.shape, np.complex128)
    constant = shape * math.log(scale) - math.lgamma(shape)
    for part in _blocks(s.size):
        at = s[part]
        # the saddle of -shape y - scale/x - s x; written so that it stays exact as s -> 0
        root = np.asarray(np.sqrt(shape**2 + 4.0 * at * scale), np.complex128)
        saddle = np.asarray(2.0 * scale / (shape + root), np.complex128)
        left, right = np.asarray(scale / saddle, np.complex128), at * saddle
        peak = -shape * np.log(saddle) - left - right
        out[part] = constant + peak + _integral(left, right, np.full(at.shape, shape, np.complex128), 0.0)
    return out


def log_laplace_log_normal(s: Complex, location: float, sigma: float) -> Complex:
    """log E exp(-s X) for log X normal(location, sigma^2); Re s >= 0."""
    out = np.empty(s.shape, np.complex128)
    for part in _blocks(s.size):
        w = lambert(s[part] * sigma**2 * math.exp(location))
        right = w / sigma**2
        peak = -(w**2) / (2.0 * sigma**2) - right
        # the exponent's slope from the Gaussian part is -(y - location)/sigma^2 = +right at the saddle
        normal = math.log(1.0 / math.sqrt(2.0 * math.pi * sigma**2))
        out[part] = normal + peak + _integral(np.zeros_like(right), right, -right, 1.0 / sigma**2)
    return out


def lambert(z: Complex) -> Complex:
    """The W with W exp(W) = z, for Re z >= 0: Halley's method from a start near enough everywhere there."""
    w = np.log1p(z)
    w = np.where(np.abs(z) > 3.0, w - np.log(np.where(np.abs(z) > 3.0, w, 1.0)), w)
    for _ in range(12):
        wrong = w - z * np.exp(-w)
        w = w - wrong / (w + 1.0 - wrong * (w + 2.0) / (2.0 * w + 2.0))
    return np.asarray(w, np.complex128)


def _blocks(size: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, size, _BLOCK)]


def _integral(left: Complex, right: Complex, slope: Complex, curve: float) -> Complex:
    """log of the integral over v of exp(-slope v - curve v^2/2 - left (e^-v - 1) - right (e^v - 1)).

    Near the saddle the path is the real line. Far to the right it turns towards the direction in which `right` e^v
    decays: on the imaginary axis a power tail would otherwise oscillate faster than any fixed set of nodes.
    """
    width = (1.0 / np.sqrt(np.real(left + right) + curve))[:, None]
    real = width * np.sinh(_NODES)
    speed = width * np.cosh(_NODES)
    if not (np.any(left.imag) or np.any(right.imag) or np.any(slope.imag)):
        exponent = _exponent(left.real, right.real, slope.real, curve, real, np.expm1(-real), np.expm1(real))
        return np.asarray(np.log((np.exp(exponent) * speed).sum(axis=1) * _STEP), np.complex128)
    turn = 0.35 * np.angle(right)[:, None]
    bend = np.tanh(2.0 * (real - _TURN))
    angle = -turn * (bend - _BEND_AT_SADDLE)  # none at the saddle, whose peak may be as sharp as it likes
    # numpy's expm1 of complex numbers takes three times as long as its parts
    rise, fall = np.expm1(real), np.expm1(-real)
    sine, half = np.sin(angle), np.sin(0.5 * angle)
    off = -2.0 * half * half  # cos(angle) - 1
    below = (fall + (1.0 + fall) * off) - 1j * ((1.0 + fall) * sine)
    above = (rise + (1.0 + rise) * off) + 1j * ((1.0 + rise) * sine)
    exponent = _exponent(left, right, slope, curve, real + 1j * angle, below, above)
    speed = speed * (1.0 - 2j * turn * (1.0 - bend**2))
    return np.asarray(np.log((np.exp(exponent) * speed).sum(axis=1) * _STEP), np.complex128)


def _exponent(left: Any, right: Any, slope: Any, curve: float, v: Any, below: Any, above: Any) -> Any:
    """The exponent at v, given e^-v - 1 and e^v - 1; real or complex."""
    return -slope[:, None] * v - 0.5 * curve * v**2 - left[:, None] * below - right[:, None] * above
