"""TPropagatorMapping: a chain of t-channel propagators."""

import operator
from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex

from madspace.phasespace._event_op import EventOp
from madspace.phasespace.kernel_mapping import KernelMapping

# q_max/q_min reaches e^143 at the largest energy: its power 1 - power stays below e^572, inside the range of exp_m1,
# and the weight of one propagator below that of float64.
_POWERS = (-3.0, 4.5)
_FUSED_MAPS = {0.0: "uniform", 0.8: "fifth", 1.0: "log"}


class TPropagatorMapping(KernelMapping):
    """Map random numbers to the momenta of a t-channel chain.

    Two massless beams scatter into ``kappa + 1`` particles through ``kappa`` t-channel propagators; propagator ``i``
    separates particles ``0 .. i`` from the others. The recoil masses are drawn first, then one 2 -> 2 block per
    propagator samples its virtuality as ``1/(|t| + 0.01 GeV^2)^power`` and its azimuth uniformly.

    Parameters
    ----------
    integration_order : sequence of int
        A permutation of ``0 .. kappa - 1``: the propagators in the order in which they are resolved, each one at an end
        of what is left. ``kappa`` is 1 or 2.
    invariant_power : float
        The power of ``|t|``, from -3 to 4.5; 0 is flat.

    Raises
    ------
    ValueError
        If the order or the power is none of these.

    Notes
    -----
    `map_inverse`, `forward_function` and `inverse_function` raise `UnsupportedOpError`: only the forward map is there.

    Inputs of `map_forward`, in this order and of shape ``(batch,)`` each: ``random0 ..`` (`random_dim` numbers in
    [0, 1]: recoil masses, then azimuth and virtuality per propagator). Conditions: ``com_energy`` (1e-30 to 1e30 GeV)
    and ``mass0 ..`` of the outgoing particles (GeV).
    Outputs: ``momentum0 ..`` of shape ``(batch, 4)`` as (E, px, py, pz) in GeV, the beams along +z and -z first;
    ``det`` in units of ``GeV^(2 kappa - 2)``, the Jacobian for the measure ``prod d^3p/(2 E) delta^4(..)`` without
    factors of 2 pi. With two propagators and a power near the limits it is infinite in corners of the unit cube from
    about 1e18 GeV on, where it exceeds float64.

    Source: T. Heimel, O. Mattelaer, R. Winterhalder, MadSpace, arXiv:2602.06895, section 2.2.8, after O. Mattelaer and
    K. Ostrolenk, arXiv:2102.00773. Every invariant is evaluated as a sum of non-negative terms (see
    ``cuda_src/phasespace/two_to_two.h``): results carry no more error than a change of the inputs in their last digit.

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
    """

    def __init__(self, integration_order: Sequence[SupportsIndex], invariant_power: SupportsFloat = 0.8) -> None:
        try:
            order = tuple(operator.index(index) for index in integration_order)
        except TypeError:
            raise TypeError(f"integration_order: expected a sequence of int, got {integration_order!r}") from None
        try:
            if isinstance(invariant_power, (str, bytes)):  # float() would read them
                raise TypeError
            power = float(invariant_power)
        except (TypeError, OverflowError):
            raise TypeError(f"invariant_power: expected a number, got {invariant_power!r}") from None
        _check_order(order)
        if not _POWERS[0] <= power <= _POWERS[1]:
            raise ValueError(f"invariant_power: expected a number from {_POWERS[0]} to {_POWERS[1]}, got {power}")
        kappa = len(order)
        inputs = [f"random{i}" for i in range(3 * kappa - 1)]
        conditions = ["com_energy", *(f"mass{i}" for i in range(kappa + 1))]
        outputs = [f"momentum{i}" for i in range(kappa + 3)]
        kernel = f"t_chain_{''.join(map(str, order))}_{_FUSED_MAPS.get(power, 'power')}"
        forward = EventOp("t_chain", kernel, inputs + conditions, [*outputs, "det"], power)
        super().__init__("TPropagatorMapping", inputs, conditions, outputs, forward)
        self._order = order
        self._power = power

    def random_dim(self) -> int:
        """Return the number of random inputs, ``3 kappa - 1``."""
        return 3 * len(self._order) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._order, self._power)

    def __repr__(self) -> str:
        return f"TPropagatorMapping({list(self._order)}, {self._power})"


def _check_order(order: tuple[int, ...]) -> None:
    if not 1 <= len(order) <= 2:
        raise ValueError(f"integration_order: expected 1 or 2 propagators, got {len(order)}")
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"integration_order: expected a permutation of {list(range(len(order)))}, got {list(order)}")
