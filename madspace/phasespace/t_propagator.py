"""TPropagatorMapping: a chain of t-channel propagators."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsFloat, SupportsIndex

from madspace.phasespace._event_op import EventOp
from madspace.phasespace.builder import FunctionBuilder
from madspace.phasespace.kernel_mapping import KernelMapping
from madspace.phasespace.t_chain import Chain
from madspace.phasespace.values import NamedValues, Value

__all__ = ["TPropagatorMapping"]

# q_max/q_min reaches e^143 at the largest energy: its power 1 - power stays below e^572, inside the range of exp_m1,
# and the weight of one propagator below that of float64.
_POWERS = (-3.0, 4.5)
_FUSED_MAPS = {0.0: "uniform", 0.8: "fifth", 1.0: "log"}
_FUSED_STEPS = 2


class TPropagatorMapping(KernelMapping):
    """Map random numbers to the momenta of a t-channel chain.

    Two massless beams scatter into ``kappa + 1`` particles through ``kappa`` t-channel propagators; propagator ``i``
    separates particles ``0 .. i`` from the others. The recoil masses are drawn first, uniform in their squares, then
    one 2 -> 2 block per propagator samples its virtuality as ``1/(|t| + 0.01 GeV^2)^power`` and its azimuth uniformly.

    Parameters
    ----------
    integration_order : sequence of int
        A permutation of ``0 .. kappa - 1``, ``kappa >= 1``: the propagators in the order in which they are resolved,
        each one at an end of what is left.
    invariant_power : float
        The power of ``|t|``, from -3 to 4.5; 0 is flat.
    pt_min : sequence of float, optional
        A floor of the transverse momentum of each outgoing particle (GeV). It narrows the range of ``|t|`` while the
        leg next to the recoil still is a beam, so that fewer points fail a cut, but does not cut itself. Empty: none.

    Raises
    ------
    ValueError
        If the order, the power or a floor is none of these.

    Notes
    -----
    Inputs of `map_forward`, in this order and of shape ``(batch,)`` each: ``random0 ..`` (`random_dim` numbers in
    [0, 1]: recoil masses, then azimuth and virtuality per propagator). Conditions: ``com_energy`` (1e-30 to 1e30 GeV)
    and ``mass0 ..`` of the outgoing particles (GeV).
    Outputs: ``momentum0 ..`` of shape ``(batch, 4)`` as (E, px, py, pz) in GeV, the beams along +z and -z first;
    ``det`` in units of ``GeV^(2 kappa - 2)``, the Jacobian for the measure ``prod d^3p/(2 E) delta^4(..)`` without
    factors of 2 pi. With two propagators or more and a power near the limits it is infinite in corners of the unit cube
    from about 1e18 GeV on, where it exceeds float64.
    `map_inverse` takes momenta in the centre-of-mass frame and the same conditions. It reads masses and energy from the
    conditions and the rest from the outgoing momenta.

    `map_forward` of one and two propagators without `pt_min` has a kernel of its own (`kernel`); everything else runs
    as a program.

    Source: T. Heimel, O. Mattelaer, R. Winterhalder, MadSpace, arXiv:2602.06895, section 2.2.8, after O. Mattelaer and
    K. Ostrolenk, arXiv:2102.00773. Every invariant is evaluated as a sum of non-negative terms (see
    ``cuda_src/phasespace/two_to_two.h`` and ``t_chain_steps.h``): results carry no more error than a change of the
    inputs in their last digit.

    Examples
    --------
    >>> import numpy as np
    >>> import madspace
    >>> mapping = madspace.TPropagatorMapping([0, 1], 0.8)
    >>> mapping.random_dim()
    5
    >>> r = np.random.default_rng(1).random((5, 1000))
    >>> energy, masses = np.array([1000.0]), [np.array([173.0]), np.array([173.0]), np.array([0.0])]
    >>> result = mapping.map_forward([*r, energy, *masses])
    >>> result.momentum2.shape
    (1000, 4)
    >>> total = result.momentum2 + result.momentum3 + result.momentum4
    >>> bool(np.allclose(total, [1000.0, 0.0, 0.0, 0.0], atol=1e-9))
    True
    >>> back = mapping.map_inverse(result[:-1], [energy, *masses])
    >>> bool(np.allclose(back.random0, r[0], atol=1e-10) and np.allclose(back.det * result.det, 1.0, atol=1e-10))
    True
    """

    def __init__(
        self,
        integration_order: Sequence[SupportsIndex],
        invariant_power: SupportsFloat = 0.8,
        pt_min: Sequence[SupportsFloat] = (),
    ) -> None:
        power = _number("invariant_power", invariant_power)
        if not _POWERS[0] <= power <= _POWERS[1]:
            raise ValueError(f"invariant_power: expected a number from {_POWERS[0]} to {_POWERS[1]}, got {power}")
        floors = [_number(f"pt_min[{i}]", floor) for i, floor in enumerate(pt_min)]
        self._chain = Chain.resolve(integration_order, power, floors)
        order = self._chain.order
        kappa = len(order)
        if floors and len(floors) != kappa + 1:
            raise ValueError(
                f"pt_min: expected {kappa + 1} numbers, one per outgoing particle, or none, got {len(floors)}"
            )
        for i, floor in enumerate(floors):
            if not 0.0 <= floor < math.inf:
                raise ValueError(f"pt_min[{i}]: expected a finite number that is not negative, got {floor}")
        if not any(floors):
            self._chain = replace(self._chain, pt_min=())
        inputs = [f"random{i}" for i in range(3 * kappa - 1)]
        conditions = ["com_energy", *(f"mass{i}" for i in range(kappa + 1))]
        outputs = [f"momentum{i}" for i in range(kappa + 3)]
        forward = None
        if kappa <= _FUSED_STEPS and not self._chain.pt_min:
            kernel = f"t_chain_{''.join(map(str, order))}_{_FUSED_MAPS.get(power, 'power')}"
            forward = EventOp("t_chain", kernel, inputs + conditions, [*outputs, "det"], power)
        super().__init__("TPropagatorMapping", inputs, conditions, outputs, forward)

    def random_dim(self) -> int:
        """Return the number of random inputs, ``3 kappa - 1``."""
        return 3 * len(self._chain.order) - 1

    def build_forward_impl(
        self, builder: FunctionBuilder, inputs: NamedValues, conditions: NamedValues
    ) -> tuple[NamedValues, Value]:
        """Add the map to a builder and return the momenta and the Jacobian."""
        com_energy, *masses = conditions.values()
        momenta, det = self._chain.forward(builder, inputs.values(), com_energy, masses)
        return NamedValues(self.output_types().keys(), momenta), det

    def build_inverse_impl(
        self, builder: FunctionBuilder, inputs: NamedValues, conditions: NamedValues
    ) -> tuple[NamedValues, Value]:
        """Add the inverse to a builder and return the random numbers and the inverse Jacobian."""
        com_energy, *masses = conditions.values()
        randoms, det = self._chain.inverse(builder, inputs.values()[2:], com_energy, masses)
        return NamedValues(self.input_types().keys(), randoms), det

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._chain.order, self._chain.power, self._chain.pt_min)

    def __repr__(self) -> str:
        floors = f", pt_min={list(self._chain.pt_min)}" if self._chain.pt_min else ""
        return f"TPropagatorMapping({list(self._chain.order)}, {self._chain.power}{floors})"


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, (str, bytes)):  # float() would read them
            raise TypeError
        return float(value)
    except (TypeError, OverflowError):
        raise TypeError(f"{name}: expected a number, got {value!r}") from None
