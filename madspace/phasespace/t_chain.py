"""The graph of a t-channel chain: which particle leaves when, and the steps there and back."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from madspace.phasespace.builder import FunctionBuilder
from madspace.phasespace.values import Value, ValueLike

__all__ = ["Chain"]

_ZERO = 0.0


@dataclass(frozen=True)
class Chain:
    """A chain of 2 -> 2 blocks, one per propagator; propagator ``i`` separates particles ``0 .. i`` from the others.

    Attributes
    ----------
    order : tuple of int
        The propagators in the order in which they are resolved.
    power : float
        The power of the sampled ``|t|``.
    pt_min : tuple of float
        Floors of the particles' transverse momenta in GeV; empty: none.
    peeled : tuple of int
        The particle that leaves at each step.
    from_above : tuple of bool
        Whether it is the last one of those left, next to the upper beam; the block's leg p_a is the lower one then.
    """

    order: tuple[int, ...]
    power: float
    pt_min: tuple[float, ...]
    peeled: tuple[int, ...]
    from_above: tuple[bool, ...]

    @classmethod
    def resolve(cls, order: Sequence[Any], power: float, pt_min: Sequence[float]) -> "Chain":
        """Return the chain of an integration order; ValueError if it does not eat its way in from the ends."""
        try:
            indices = tuple(operator.index(index) for index in order)
        except TypeError:
            raise TypeError(f"integration_order: expected a sequence of int, got {order!r}") from None
        if sorted(indices) != list(range(len(indices))) or not indices:
            n = max(len(indices), 1)
            raise ValueError(f"integration_order: expected a permutation of {list(range(n))}, got {list(indices)}")
        low, high = 0, len(indices) - 1
        from_above = []
        for index in indices:
            if index not in (low, high):
                raise ValueError(
                    f"integration_order: expected {low} or {high} next, the ends of what is left, got {index} in "
                    f"{list(indices)}"
                )
            from_above.append(index == high)
            low, high = (low, high - 1) if index == high else (low + 1, high)
        peeled = tuple(index + above for index, above in zip(indices, from_above, strict=True))
        return cls(indices, power, tuple(pt_min), peeled, tuple(from_above))

    @property
    def last(self) -> int:
        """The particle that is left in the end; the last step takes the one above it."""
        return self.order[-1]

    def left(self, step: int) -> list[int]:
        """Return the particles that are left after a step, the one that stays longest first."""
        return [self.last, *self.peeled[:step:-1]]

    def forward(
        self, builder: FunctionBuilder, randoms: Sequence[Value], com_energy: Value, masses: Sequence[Value]
    ) -> tuple[list[Value], Value]:
        """Add the map to a builder and return the momenta, beams first, and the Jacobian."""
        kinematics = _Kinematics(self, builder, com_energy, masses)
        n = len(self.order)
        beams = builder.com_p_in(kinematics.energy)
        mass, excess = kinematics.energy, kinematics.excess
        # Here and not in the end, so that no number has to be kept for it.
        weight = builder.t_chain_weight(kinematics.weight, builder.stack(randoms))
        blocks = []
        for step in range(n - 1):
            recoil, rest_excess, block_excess, weight = builder.t_chain_recoil(
                randoms[step], mass, kinematics.rest[step], excess, weight
            )
            blocks.append((mass, recoil, block_excess))
            mass, excess = recoil, rest_excess
        blocks.append((mass, kinematics.masses[self.last], excess))

        legs = _Legs(kinematics)
        momenta: dict[int, Value] = {}
        for step, (mass, recoil, excess) in enumerate(blocks):
            r_phi, r_t = randoms[n - 1 + 2 * step : n + 1 + 2 * step]
            particle = self.peeled[step]
            t_abs, *frame, weight = legs.transfer(True, step, [r_t], mass, recoil, excess, weight)
            recoil_momentum, momentum = builder.t_chain_scatter(
                r_phi, *frame, mass, recoil, kinematics.masses[particle], *legs.scatter_arguments(step)
            )
            momenta[particle] = momentum
            plus, minus = builder.light_cone(momentum, kinematics.masses[particle])
            legs.peel(step, t_abs, recoil_momentum, plus, minus, momentum)
        momenta[self.last] = legs.total
        det = builder.max(weight, _ZERO)  # NaN becomes 0
        return [*beams, *(momenta[i] for i in range(n + 1))], det

    def inverse(
        self, builder: FunctionBuilder, momenta: Sequence[Value], com_energy: Value, masses: Sequence[Value]
    ) -> tuple[list[Value], Value]:
        """Add the inverse to a builder and return the random numbers and the inverse Jacobian. `momenta`: no beams."""
        kinematics = _Kinematics(self, builder, com_energy, masses)
        particles = _Particles(builder, momenta, kinematics.masses)
        n = len(self.order)
        mass, excess, weight = kinematics.energy, kinematics.excess, kinematics.weight
        blocks, randoms = [], []
        recoil_excesses = [particles.excess(self.left(step)) for step in range(n - 1)]
        for step in range(n - 1):
            r, recoil, rest_excess, block_excess, weight = builder.t_chain_recoil_inverse(
                recoil_excesses[step], mass, kinematics.rest[step], excess, weight
            )
            randoms.append(r)
            blocks.append((mass, recoil, block_excess))
            mass, excess = recoil, rest_excess
        blocks.append((mass, kinematics.masses[self.last], excess))

        legs = _Legs(kinematics)
        for step, (mass, recoil, excess) in enumerate(blocks):
            particle = self.peeled[step]
            recoil_momentum, momentum = particles.total(self.left(step)), momenta[particle]
            r_phi, share = builder.t_chain_scatter_inverse(
                recoil_momentum, momentum, mass, *legs.scatter_arguments(step)
            )
            t_abs = particles.t_abs(self.order[step], self.from_above[step])
            r_t, weight = legs.transfer(False, step, [t_abs, share], mass, recoil, excess, weight)
            randoms += [r_phi, r_t]
            legs.peel(step, t_abs, recoil_momentum, particles.plus[particle], particles.minus[particle], momentum)
        return randoms, builder.t_chain_weight(weight, builder.stack(randoms))


class _Kinematics:
    """Energy and masses, those of a massless event with weight 0 where they are faulty, and sums of masses."""

    def __init__(self, chain: Chain, builder: FunctionBuilder, com_energy: Value, masses: Sequence[Value]) -> None:
        self.chain = chain
        self.builder = builder
        self.weight, self.energy, kept, self.excess = builder.t_chain_start(com_energy, builder.stack(masses))
        self.masses = builder.unstack(kept)
        self.rest = self._sums(self.masses)
        if chain.pt_min:
            pairs = zip(self.masses, chain.pt_min, strict=True)
            self.floors = [
                builder.sqrt(builder.add(builder.square(mass), pt * pt)) if pt else mass for mass, pt in pairs
            ]
            self.floor_sums = self._sums(self.floors)

    def _sums(self, values: Sequence[Value]) -> list[Value]:
        """Return the sum over the particles that are left after each step."""
        sums = [values[self.chain.last]]
        for particle in self.chain.peeled[:0:-1]:
            sums.append(self.builder.add(sums[-1], values[particle]))
        return sums[::-1]


class _Legs:
    """What the two incoming legs have lost on the way: their virtualities and the light-cone sums of what left."""

    def __init__(self, kinematics: _Kinematics) -> None:
        self.kinematics = kinematics
        self.builder = builder = kinematics.builder
        self.total = builder.stack([kinematics.energy, _ZERO, _ZERO, _ZERO])
        self.lower_virtuality: ValueLike = _ZERO
        self.upper_virtuality: ValueLike = _ZERO
        self.lower: list[ValueLike] = [_ZERO, _ZERO, _ZERO]  # sums of p^-, p_x, p_y
        self.upper: ValueLike = _ZERO  # sum of p^+

    def transfer(
        self, is_forward: bool, step: int, given: list[Value], mass: Value, recoil: Value, excess: Value, weight: Value
    ) -> list[Value]:
        """Add the step from a random number to |t| or back, with floors where the leg p_a still is a beam."""
        kinematics, builder, chain = self.kinematics, self.builder, self.kinematics.chain
        particle, above = chain.peeled[step], chain.from_above[step]
        a, b = self.lower_virtuality, self.upper_virtuality
        if not above:
            a, b = b, a
        block = [*given, mass, recoil, kinematics.masses[particle], excess]
        if not chain.pt_min or isinstance(a, Value):
            add = builder.t_chain_transfer if is_forward else builder.t_chain_transfer_inverse
            return add(*block, a, b, chain.power, weight)
        pt_2: ValueLike = _ZERO
        leg: ValueLike = _ZERO
        if isinstance(b, Value):
            pt_2 = builder.add(*(builder.square(x) for x in (builder.obs_px(self.total), builder.obs_py(self.total))))
            plus, minus = builder.light_cone(self.total, mass)
            leg = builder.mul(self.upper, minus) if above else builder.mul(self.lower[0], plus)
        add_cut = builder.t_chain_transfer_cut if is_forward else builder.t_chain_transfer_cut_inverse
        floors = kinematics.floor_sums[step], kinematics.floors[particle]
        return add_cut(*block, b, chain.power, weight, pt_2, leg, *floors)

    def scatter_arguments(self, step: int) -> list[ValueLike]:
        """Return the last arguments of the scattering of a step."""
        sign = 1.0 if self.kinematics.chain.from_above[step] else -1.0
        return [self.total, *self.lower, self.upper, sign]

    def peel(self, step: int, t_abs: Value, recoil: Value, plus: Value, minus: Value, momentum: Value) -> None:
        """Go on to what is left after a step."""
        builder = self.builder
        self.total = recoil
        if self.kinematics.chain.from_above[step]:
            self.upper_virtuality = t_abs
            self.upper = builder.add(self.upper, plus)
        else:
            self.lower_virtuality = t_abs
            lost = minus, builder.obs_px(momentum), builder.obs_py(momentum)
            self.lower = [builder.add(x, y) for x, y in zip(self.lower, lost, strict=True)]


class _Particles:
    """Given momenta, with their masses, and sums over several of them."""

    def __init__(self, builder: FunctionBuilder, momenta: Sequence[Value], masses: Sequence[Value]) -> None:
        self.builder = builder
        self.momenta = momenta
        cones = [builder.light_cone(p, m) for p, m in zip(momenta, masses, strict=True)]
        self.plus = [plus for plus, _ in cones]
        self.minus = [minus for _, minus in cones]
        self.x = [builder.obs_px(p) for p in momenta]
        self.y = [builder.obs_py(p) for p in momenta]
        self.masses = masses

    def _sum(self, values: Sequence[Value], which: Sequence[int]) -> Value:
        total = values[which[0]]
        for i in which[1:]:
            total = self.builder.add(total, values[i])
        return total

    def total(self, which: Sequence[int]) -> Value:
        """Return the sum of momenta."""
        return self._sum(self.momenta, which)

    def excess(self, which: Sequence[int]) -> Value:
        """Return the squared mass of several particles above the square of the sum of their masses."""
        pairs = [self._pair(*pair) for pair in combinations(which, 2)]
        return self._sum(pairs, range(len(pairs)))

    def _pair(self, i: int, j: int) -> Value:
        return self.builder.pair_excess(self.momenta[i], self.masses[i], self.momenta[j], self.masses[j])

    def t_abs(self, index: int, from_above: bool) -> Value:
        """Return |t| of a propagator as (sum_A p^-)(sum_B p^+) + |sum p_T|^2, A and B the particles on its two sides.

        The transverse sum is over the side from which a particle has just left, which is the one with fewer particles
        so far as they are soft.
        """
        builder = self.builder
        below, above = range(index + 1), range(index + 1, len(self.momenta))
        side = above if from_above else below
        x, y = self._sum(self.x, side), self._sum(self.y, side)
        product = builder.mul(self._sum(self.minus, below), self._sum(self.plus, above))
        return builder.add(product, builder.add(builder.square(x), builder.square(y)))
