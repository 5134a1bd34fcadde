"""FunctionBuilder: records instructions and makes a Function of them."""

from collections.abc import Callable, Sequence
from typing import NoReturn, SupportsIndex

from madspace.phasespace.builder_base import BuilderBase, OpMethod, position_of, positions
from madspace.phasespace.function import Function
from madspace.phasespace.types import BatchSize, DataType, Type
from madspace.phasespace.values import NamedValues, Value, ValueLike, as_value

__all__ = ["FunctionBuilder"]

# From here on a list is multiplied or added up by one instruction instead of one per entry.
_LONG_LIST = 4


class FunctionBuilder(BuilderBase):
    """Records instructions and makes a `Function` of them.

    There is a method for every opcode of MadSpace 0.2.1, with its arguments in the same order, and for the steps of
    t-channel chains (``t_chain_..``, ``light_cone``, ``pair_excess``), which only this package has. Arguments are
    values of this builder, numbers, or nested sequences of numbers. A method returns its result, or a list where there
    are several. Instructions that are there already are not added again, operations on constants are carried out
    at once, and what no output needs is left out of the function.

    Parameters
    ----------
    input_types, output_types : NamedTypes
        Names and types of arguments and results.

    Raises
    ------
    UnsupportedOpError
        From the methods of opcodes that this version lacks: those that change the size of the batch or reduce over it,
        networks, training, interpolation tables, matrix elements and random numbers.
    ShapeError, DTypeError
        From the methods, if an argument does not fit.

    Examples
    --------
    >>> from madspace import FunctionBuilder, NamedTypes, batch_float
    >>> arguments = NamedTypes([("x", batch_float), ("y", batch_float)])
    >>> builder = FunctionBuilder(arguments, NamedTypes([("r", batch_float)]))
    >>> x, y = builder.input_range(0, 2)
    >>> builder.output(0, builder.sqrt(builder.add(builder.square(x), builder.square(y))))
    >>> print(builder.function())
    Inputs:
      %0 : float[batch_size]=x
      %1 : float[batch_size]=y
    Globals:
    Instructions:
      %2 = square(%0)
      %3 = square(%1)
      %4 = add(%2, %3)
      %5 = sqrt(%4)
    Outputs:
      r=%5 : float[batch_size]
    <BLANKLINE>
    """

    def input(self, index: SupportsIndex) -> Value:
        """Return the argument at a position."""
        position = position_of(index, "input")
        if not 0 <= position < len(self._inputs):
            raise IndexError(f"input index: expected 0 to {len(self._inputs) - 1}, got {position}")
        return self._inputs[position]

    def input_range(self, start_index: SupportsIndex, end_index: SupportsIndex) -> list[Value]:
        """Return the arguments from `start_index` to before `end_index`."""
        return [self._inputs[i] for i in positions(start_index, end_index, len(self._inputs), "input")]

    def output(self, index: SupportsIndex, value: ValueLike) -> None:
        """Make a value the result at a position; ValueError for a position that has one."""
        position = position_of(index, "output")
        if not 0 <= position < len(self._outputs):
            raise IndexError(f"output index: expected 0 to {len(self._outputs) - 1}, got {position}")
        if self._outputs[position] is not None:
            name, known = self._output_names[position], self._outputs[position]
            raise ValueError(
                f"output index: expected a result that is not set yet, got {position} ({name}), which is {known}"
            )
        result = as_value(value)
        self._check_origin([result])
        self._check_output(position, result)
        self._number_of(result)
        self._outputs[position] = result

    def output_range(self, start_index: SupportsIndex, values: Sequence[ValueLike]) -> None:
        """Make values the results from `start_index` on."""
        start = position_of(start_index, "output")
        for i, value in zip(positions(start, start + len(values), len(self._outputs), "output"), values, strict=True):
            self.output(i, value)

    def get_global(self, name: str, dtype: DataType, shape: Sequence[SupportsIndex]) -> Value:
        """Return the array that a context holds under `name`, the same for all events."""
        type = Type(dtype, BatchSize.one, shape)
        if name not in self._globals:
            self._globals[name] = self._new_local(type)
        elif self._globals[name].type != type:
            raise ValueError(f"{name}: expected type {self._globals[name].type}, as before, got {type}")
        return self._globals[name]

    def sum(self, values: Sequence[ValueLike]) -> Value:
        """Return the sum of values of one shape, 0 for none."""
        return self._reduce(values, 0.0, self.add, self.reduce_sum)

    def product(self, values: Sequence[ValueLike]) -> Value:
        """Return the product of values of one shape, 1 for none."""
        return self._reduce(values, 1.0, self.mul, self.reduce_product)

    def _reduce(
        self,
        values: Sequence[ValueLike],
        empty: float,
        step: Callable[[Value, Value], Value],
        reduce: Callable[[Value], Value],
    ) -> Value:
        items = [as_value(value) for value in values]
        if not items:
            return Value(empty)
        if len(items) >= _LONG_LIST and not items[0].type.shape:
            return reduce(self.stack(items))
        result = items[0]
        for item in items[1:]:
            result = step(result, item)
        return result

    def current_stream(self) -> int:
        """Return the stream that new instructions are marked with."""
        return self._stream_index

    def set_current_stream(self, index: SupportsIndex) -> None:
        """Mark new instructions with a stream; a hint that is kept in files and changes no result."""
        self._stream_index = index.__index__()

    def function(self) -> Function:
        """Return what was recorded as a function.

        Raises
        ------
        ValueError
            An output has no value.
        """
        outputs = NamedValues()
        for name, value in zip(self._output_names, self._outputs, strict=True):
            if value is None:
                raise ValueError(f"{name}: expected a value for this output, got none")
            outputs.push_back(name, value)
        inputs = NamedValues(self._input_names, self._inputs)
        names = sorted(self._globals)
        return Function(
            inputs, outputs, self._locals, [(name, self._globals[name]) for name in names], self._live_calls()
        )

    stack = OpMethod[Value]()
    unstack = OpMethod[list[Value]]()
    stack_sizes = OpMethod[NoReturn]()
    unstack_sizes = OpMethod[NoReturn]()
    pop = OpMethod[list[Value]]()
    batch_cat = OpMethod[NoReturn]()
    batch_split = OpMethod[NoReturn]()
    cat = OpMethod[Value]()
    batch_size = OpMethod[Value]()
    offset_indices = OpMethod[NoReturn]()
    full = OpMethod[Value]()
    squeeze = OpMethod[Value]()
    unsqueeze = OpMethod[Value]()
    accept_norm = OpMethod[NoReturn]()
    batch_split_by_index = OpMethod[NoReturn]()
    batch_merge_by_index = OpMethod[NoReturn]()
    add = OpMethod[Value]()
    add_int = OpMethod[Value]()
    sub = OpMethod[Value]()
    mul = OpMethod[Value]()
    div = OpMethod[Value]()
    reduce_sum = OpMethod[Value]()
    reduce_sum_vector = OpMethod[Value]()
    batch_reduce_sum = OpMethod[NoReturn]()
    batch_reduce_mean = OpMethod[NoReturn]()
    batch_reduce_mean_keepdim = OpMethod[NoReturn]()
    reduce_product = OpMethod[Value]()
    sqrt = OpMethod[Value]()
    square = OpMethod[Value]()
    min = OpMethod[Value]()
    max = OpMethod[Value]()
    abs = OpMethod[Value]()
    obs_sqrt_s = OpMethod[Value]()
    obs_e = OpMethod[Value]()
    obs_px = OpMethod[Value]()
    obs_py = OpMethod[Value]()
    obs_pz = OpMethod[Value]()
    obs_mass = OpMethod[Value]()
    obs_pt = OpMethod[Value]()
    obs_p_mag = OpMethod[Value]()
    obs_phi = OpMethod[Value]()
    obs_theta = OpMethod[Value]()
    obs_y = OpMethod[Value]()
    obs_y_abs = OpMethod[Value]()
    obs_eta = OpMethod[Value]()
    obs_eta_abs = OpMethod[Value]()
    obs_delta_eta = OpMethod[Value]()
    obs_delta_phi = OpMethod[Value]()
    obs_delta_r = OpMethod[Value]()
    obs_pair_mass = OpMethod[Value]()
    boost_beam = OpMethod[Value]()
    boost_beam_inverse = OpMethod[Value]()
    com_p_in = OpMethod[list[Value]]()
    r_to_x1x2 = OpMethod[list[Value]]()
    x1x2_to_r = OpMethod[list[Value]]()
    diff_cross_section = OpMethod[Value]()
    two_body_decay_com = OpMethod[list[Value]]()
    two_body_decay_com_inverse = OpMethod[list[Value]]()
    two_body_decay = OpMethod[list[Value]]()
    two_body_decay_inverse = OpMethod[list[Value]]()
    two_to_two_particle_scattering_com = OpMethod[list[Value]]()
    two_to_two_particle_scattering_com_inverse = OpMethod[list[Value]]()
    two_to_two_particle_scattering = OpMethod[list[Value]]()
    two_to_two_particle_scattering_inverse = OpMethod[list[Value]]()
    two_to_three_particle_scattering = OpMethod[list[Value]]()
    two_to_three_particle_scattering_inverse = OpMethod[list[Value]]()
    double_t_scattering = OpMethod[list[Value]]()
    double_t_scattering_inverse = OpMethod[list[Value]]()
    three_body_decay_com = OpMethod[list[Value]]()
    three_body_decay_com_inverse = OpMethod[list[Value]]()
    three_body_decay = OpMethod[list[Value]]()
    three_body_decay_inverse = OpMethod[list[Value]]()
    t_inv_min_max = OpMethod[list[Value]]()
    t_inv_value_and_min_max = OpMethod[list[Value]]()
    t_inv_min_max_cut = OpMethod[list[Value]]()
    t_inv_value_and_min_max_cut = OpMethod[list[Value]]()
    t1_inv_min_max_doublet = OpMethod[list[Value]]()
    t1_inv_value_and_min_max_doublet = OpMethod[list[Value]]()
    t2_inv_min_max_doublet = OpMethod[list[Value]]()
    t2_inv_value_and_min_max_doublet = OpMethod[list[Value]]()
    s23_min_max = OpMethod[list[Value]]()
    s23_value_and_min_max = OpMethod[list[Value]]()
    s23_min_max_cut = OpMethod[list[Value]]()
    s23_value_and_min_max_cut = OpMethod[list[Value]]()
    s23_position = OpMethod[list[Value]]()
    s23_arcsine_sample = OpMethod[list[Value]]()
    s23_arcsine_sample_inverse = OpMethod[list[Value]]()
    invariants_from_momenta = OpMethod[Value]()
    sde2_channel_weights = OpMethod[Value]()
    subchannel_weights = OpMethod[Value]()
    apply_subchannel_weights = OpMethod[Value]()
    compress_channel_weights = OpMethod[list[Value]]()
    restore_channel_weights = OpMethod[Value]()
    pt_eta_phi_x = OpMethod[Value]()
    mirror_momenta = OpMethod[Value]()
    momenta_to_x1x2 = OpMethod[list[Value]]()
    uniform_invariant = OpMethod[list[Value]]()
    uniform_invariant_inverse = OpMethod[list[Value]]()
    breit_wigner_invariant = OpMethod[list[Value]]()
    breit_wigner_invariant_inverse = OpMethod[list[Value]]()
    stable_invariant = OpMethod[list[Value]]()
    stable_invariant_inverse = OpMethod[list[Value]]()
    stable_invariant_nu = OpMethod[list[Value]]()
    stable_invariant_nu_inverse = OpMethod[list[Value]]()
    fast_rambo_massless = OpMethod[list[Value]]()
    fast_rambo_massless_inverse = OpMethod[list[Value]]()
    fast_rambo_massless_com = OpMethod[list[Value]]()
    fast_rambo_massive = OpMethod[list[Value]]()
    fast_rambo_massive_inverse = OpMethod[list[Value]]()
    fast_rambo_massive_com = OpMethod[list[Value]]()
    cut_unphysical = OpMethod[Value]()
    cut_one = OpMethod[Value]()
    cut_all = OpMethod[Value]()
    cut_any = OpMethod[Value]()
    scale_transverse_energy = OpMethod[Value]()
    scale_transverse_mass = OpMethod[Value]()
    scale_half_transverse_mass = OpMethod[Value]()
    scale_partonic_energy = OpMethod[Value]()
    chili_forward = OpMethod[list[Value]]()
    chili_inverse = OpMethod[list[Value]]()
    matrix_element = OpMethod[NoReturn]()
    collect_channel_weights = OpMethod[Value]()
    interpolate_pdf = OpMethod[NoReturn]()
    interpolate_alpha_s = OpMethod[NoReturn]()
    matmul = OpMethod[NoReturn]()
    relu = OpMethod[NoReturn]()
    leaky_relu = OpMethod[NoReturn]()
    elu = OpMethod[NoReturn]()
    gelu = OpMethod[NoReturn]()
    sigmoid = OpMethod[NoReturn]()
    scaled_tanh = OpMethod[NoReturn]()
    softplus = OpMethod[NoReturn]()
    rqs_reshape = OpMethod[NoReturn]()
    rqs_find_bin = OpMethod[NoReturn]()
    rqs_forward = OpMethod[NoReturn]()
    rqs_inverse = OpMethod[NoReturn]()
    softmax = OpMethod[NoReturn]()
    softmax_prior = OpMethod[NoReturn]()
    sample_discrete = OpMethod[list[Value]]()
    sample_discrete_inverse = OpMethod[list[Value]]()
    sample_discrete_probs = OpMethod[list[Value]]()
    sample_discrete_probs_inverse = OpMethod[list[Value]]()
    discrete_histogram = OpMethod[NoReturn]()
    permute_momenta = OpMethod[Value]()
    gather = OpMethod[Value]()
    gather_int = OpMethod[Value]()
    gather_vector = OpMethod[Value]()
    select_int = OpMethod[Value]()
    select = OpMethod[Value]()
    select_vector = OpMethod[Value]()
    argsort = OpMethod[Value]()
    quantile = OpMethod[NoReturn]()
    one_hot = OpMethod[Value]()
    madnis_abs_weight = OpMethod[NoReturn]()
    madnis_softclip = OpMethod[NoReturn]()
    madnis_variance = OpMethod[NoReturn]()
    madnis_single_channel_variance = OpMethod[NoReturn]()
    madnis_multi_channel_variance = OpMethod[NoReturn]()
    nonzero = OpMethod[NoReturn]()
    batch_gather = OpMethod[NoReturn]()
    batch_scatter = OpMethod[NoReturn]()
    random = OpMethod[NoReturn]()
    random_int = OpMethod[NoReturn]()
    unweight = OpMethod[NoReturn]()
    vegas_forward = OpMethod[list[Value]]()
    vegas_inverse = OpMethod[list[Value]]()
    vegas_histogram = OpMethod[NoReturn]()
    histogram = OpMethod[NoReturn]()
    t_chain_start = OpMethod[list[Value]]()
    t_chain_weight = OpMethod[Value]()
    light_cone = OpMethod[list[Value]]()
    t_chain_recoil = OpMethod[list[Value]]()
    t_chain_recoil_inverse = OpMethod[list[Value]]()
    t_chain_transfer = OpMethod[list[Value]]()
    t_chain_transfer_inverse = OpMethod[list[Value]]()
    t_chain_transfer_cut = OpMethod[list[Value]]()
    t_chain_transfer_cut_inverse = OpMethod[list[Value]]()
    t_chain_scatter = OpMethod[list[Value]]()
    t_chain_scatter_inverse = OpMethod[list[Value]]()
    pair_excess = OpMethod[Value]()
