"""The catalogue of opcodes: names, numbers, arguments and types, as MadSpace 0.2.1 has them, and a few more.

A line is ``name arguments: types of the arguments > types of the results``. A type is ``f`` (float64) or ``i`` (int32)
with the shape of an event in brackets; letters in a shape are sizes that must agree, ``...`` any leading axes.
``1`` behind it: no batch axis; ``#n``: an integer constant that sets the size n; ``*``: rules of its own.
A reason instead of types: the opcode has a number, but cannot be used here.
"""

import enum
import functools
from dataclasses import dataclass

__all__ = ["Group", "Opcode", "catalogue"]


class Group(enum.Enum):
    """How an opcode is compiled."""

    RENAME = "moves registers, computes nothing"
    ELEMENT = "the same scalar op for every element"
    ROW = "one op per innermost axis of the arguments"
    WHOLE = "one op for all elements"
    REFUSED = "not available"


@dataclass(frozen=True)
class Opcode:
    """One opcode.

    Attributes
    ----------
    name : str
        Its name, which is also the builder's method.
    number : int
        Its place in the catalogue.
    arguments : tuple of str
        Names of the arguments; ``("args",)`` with a single ``*`` type for a list of any length.
    group : Group
        How it is compiled.
    inputs, outputs : tuple of str
        Types, in the notation of this module.
    reason : str
        Why it is refused.
    """

    name: str
    number: int
    arguments: tuple[str, ...]
    group: Group
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_variadic(self) -> bool:
        """Whether the only argument is a list of values."""
        return self.arguments == ("args",)


_SIZES = "the batch would change its size"
_BATCH = "it reduces over the batch"
_EXTERNAL = "it calls an external library"
_NETWORK = "networks are not part of this version"
_TRAINING = "training is not part of this version"
_TABLE = "interpolation tables are not part of this version"
_RANDOM = "random numbers inside a graph are not part of this version"

_UNARY = "f[...] > f[...]"
_BINARY = "f[...] f[...] > f[...]"
_OBS = "f[...,4] > f[...]"
_OBS_2 = "f[...,4] f[...,4] > f[...]"
_CUT = "f f f > f"
_SCALE = "f[n,4] > f"
_TWO_TO_TWO = "f f[4] f[4] f f f > f[4] f[4] f"
_TWO_TO_TWO_INVERSE = "f[4] f[4] f[4] f[4] > f f f f"
_BLOCK = "mass m1 m2 excess"
_FLOORS = "b nu weight pt_2 leg etmin_1 etmin_2"

# In the order of their numbers.
_TABLE_TEXT: tuple[tuple[Group, str], ...] = (
    (Group.RENAME, "stack args: *"),
    (Group.RENAME, "unstack in1: * > *"),
    (Group.REFUSED, f"stack_sizes args: {_SIZES}"),
    (Group.REFUSED, f"unstack_sizes in1: {_SIZES}"),
    (Group.RENAME, "pop in1: * > * *"),
    (Group.REFUSED, f"batch_cat args: {_SIZES}"),
    (Group.REFUSED, f"batch_split in1 counts: {_SIZES}"),
    (Group.RENAME, "cat args: *"),
    (Group.RENAME, "batch_size args: *"),
    (Group.REFUSED, f"offset_indices batch_sizes_offset batch_sizes_out: {_SIZES}"),
    (Group.RENAME, "full args: *"),
    (Group.RENAME, "squeeze input: * > *"),
    (Group.RENAME, "unsqueeze input: * > *"),
    (Group.REFUSED, f"accept_norm accepted_batch full_batch: {_BATCH}"),
    (Group.REFUSED, f"batch_split_by_index indices count: {_SIZES}"),
    (Group.REFUSED, f"batch_merge_by_index args: {_SIZES}"),
    (Group.ELEMENT, f"add in1 in2: {_BINARY}"),
    (Group.ELEMENT, "add_int in1 in2: i[...] i[...] > i[...]"),
    (Group.ELEMENT, f"sub in1 in2: {_BINARY}"),
    (Group.ELEMENT, f"mul in1 in2: {_BINARY}"),
    (Group.ELEMENT, f"div in1 in2: {_BINARY}"),
    (Group.ROW, "reduce_sum in1: f[...,n] > f[...]"),
    (Group.RENAME, "reduce_sum_vector in1: f[...,n,k] > f[...,k]"),
    (Group.REFUSED, f"batch_reduce_sum in1: {_BATCH}"),
    (Group.REFUSED, f"batch_reduce_mean in1: {_BATCH}"),
    (Group.REFUSED, f"batch_reduce_mean_keepdim in1: {_BATCH}"),
    (Group.ROW, "reduce_product in1: f[n] > f"),
    (Group.ELEMENT, f"sqrt in1: {_UNARY}"),
    (Group.ELEMENT, f"square in1: {_UNARY}"),
    (Group.ELEMENT, f"min in1 in2: {_BINARY}"),
    (Group.ELEMENT, f"max in1 in2: {_BINARY}"),
    (Group.ELEMENT, f"abs input: {_UNARY}"),
    (Group.WHOLE, "obs_sqrt_s p_ext: f[n,4] > f"),
    (Group.RENAME, f"obs_e p: {_OBS}"),
    (Group.RENAME, f"obs_px p: {_OBS}"),
    (Group.RENAME, f"obs_py p: {_OBS}"),
    (Group.RENAME, f"obs_pz p: {_OBS}"),
    *(
        (Group.ROW, f"obs_{name} p: {_OBS}")
        for name in ("mass", "pt", "p_mag", "phi", "theta", "y", "y_abs", "eta", "eta_abs")
    ),
    *((Group.ROW, f"obs_{name} p1 p2: {_OBS_2}") for name in ("delta_eta", "delta_phi", "delta_r", "pair_mass")),
    (Group.WHOLE, "boost_beam p1 masses x1 x2: f[n,4] f[n] f f > f[n,4]"),
    (Group.WHOLE, "boost_beam_inverse p1 masses x1 x2: f[n,4] f[n] f f > f[n,4]"),
    (Group.WHOLE, "com_p_in e_cm: f > f[4] f[4]"),
    (Group.WHOLE, "r_to_x1x2 r s_hat s_lab: f f f > f f f"),
    (Group.WHOLE, "x1x2_to_r x1 x2 s_lab: f f f > f f"),
    (Group.WHOLE, "diff_cross_section x1 x2 pdf1 pdf2 matrix_element e_cm2: f f f f f f > f"),
    (Group.WHOLE, "two_body_decay_com r_phi r_cos_theta m0 m1 m2: f f f f f > f[4] f[4] f"),
    (Group.WHOLE, "two_body_decay_com_inverse p1 p2: f[4] f[4] > f f f f f f"),
    (Group.WHOLE, "two_body_decay r_phi r_cos_theta m0 m1 m2 p0: f f f f f f[4] > f[4] f[4] f"),
    (Group.WHOLE, "two_body_decay_inverse p1 p2: f[4] f[4] > f f f f f f[4] f"),
    (Group.WHOLE, f"two_to_two_particle_scattering_com r_phi pa pb t_abs m1 m2: {_TWO_TO_TWO}"),
    (Group.WHOLE, f"two_to_two_particle_scattering_com_inverse p1 p2 pa pb: {_TWO_TO_TWO_INVERSE}"),
    (Group.WHOLE, f"two_to_two_particle_scattering r_phi pa pb t_abs m1 m2: {_TWO_TO_TWO}"),
    (Group.WHOLE, f"two_to_two_particle_scattering_inverse p1 p2 pa pb: {_TWO_TO_TWO_INVERSE}"),
    (
        Group.WHOLE,
        "two_to_three_particle_scattering phi_choice pa p12 p3 u u_c t1_abs m1 m2: "
        "i f[4] f[4] f[4] f f f f f > f[4] f[4] f",
    ),
    (
        Group.WHOLE,
        "two_to_three_particle_scattering_inverse p1 p2 p3 pa p12 t1_abs: f[4] f[4] f[4] f[4] f[4] f > f f i f f f",
    ),
    (Group.WHOLE, "double_t_scattering r_phi pa pb t1_abs t2_abs m1: f f[4] f[4] f f f > f[4] f[4] f"),
    (Group.WHOLE, "double_t_scattering_inverse p1 p2 pa pb: f[4] f[4] f[4] f[4] > f f"),
    (
        Group.WHOLE,
        "three_body_decay_com r_e1 r_e2 r_phi r_cos_theta r_beta m0 m1 m2 m3: f f f f f f f f f > f[4] f[4] f[4] f",
    ),
    (Group.WHOLE, "three_body_decay_com_inverse p1 p2 p3: f[4] f[4] f[4] > f f f f f f f f f f"),
    (
        Group.WHOLE,
        "three_body_decay r_e1 r_e2 r_phi r_cos_theta r_beta m0 m1 m2 m3 p0: f f f f f f f f f f[4] > f[4] f[4] f[4] f",
    ),
    (Group.WHOLE, "three_body_decay_inverse p1 p2 p3: f[4] f[4] f[4] > f f f f f f f f f f[4] f"),
    (Group.WHOLE, "t_inv_min_max pa pb m1 m2: f[4] f[4] f f > f f"),
    (Group.WHOLE, "t_inv_value_and_min_max pa pb p1 p2: f[4] f[4] f[4] f[4] > f f f"),
    (Group.WHOLE, "t_inv_min_max_cut pa pb m1 m2 etmin_1 etmin_2: f[4] f[4] f f f f > f f"),
    (Group.WHOLE, "t_inv_value_and_min_max_cut pa pb p1 p2 etmin_1 etmin_2: f[4] f[4] f[4] f[4] f f > f f f"),
    (Group.WHOLE, "t1_inv_min_max_doublet pa pb m1 mir_min etmin_i etmin_ir: f[4] f[4] f f f f > f f"),
    (
        Group.WHOLE,
        "t1_inv_value_and_min_max_doublet pa pb p1 m1 mir_min etmin_i etmin_ir: f[4] f[4] f[4] f f f f > f f f",
    ),
    (Group.WHOLE, "t2_inv_min_max_doublet pa pb m1 mir_min t1_abs etmin_i etmin_ir: f[4] f[4] f f f f f > f f"),
    (
        Group.WHOLE,
        "t2_inv_value_and_min_max_doublet pa pb p1 m1 mir_min t1_abs etmin_i etmin_ir: "
        "f[4] f[4] f[4] f f f f f > f f f",
    ),
    (Group.WHOLE, "s23_min_max pa p12 p3 t1_abs m1 m2: f[4] f[4] f[4] f f f > f f"),
    (Group.WHOLE, "s23_value_and_min_max pa p3 t1_abs p1 p2: f[4] f[4] f f[4] f[4] > f f f"),
    (
        Group.WHOLE,
        "s23_min_max_cut pa p12 p3 t1_abs m1 m2 etmin_1 etmin_2 drcut s23_min_cut: f[4] f[4] f[4] f f f f f f f > f f",
    ),
    (
        Group.WHOLE,
        "s23_value_and_min_max_cut pa p3 t1_abs p1 p2 etmin_1 etmin_2 drcut s23_min_cut: "
        "f[4] f[4] f f[4] f[4] f f f f > f f f",
    ),
    (Group.WHOLE, "s23_position s23 s_phys_min s_phys_max: f f f > f f"),
    (Group.WHOLE, "s23_arcsine_sample r s_min s_max s_phys_min s_phys_max power mass: f f f f f f f > f f f"),
    (
        Group.WHOLE,
        "s23_arcsine_sample_inverse u u_c s_min s_max s_phys_min s_phys_max power mass: f f f f f f f f > f f",
    ),
    (Group.WHOLE, "invariants_from_momenta p_ext factors: f[n,4] f[m,n] > f[m]"),
    (Group.WHOLE, "sde2_channel_weights invariants masses widths indices: f[k] f[c,p] f[c,p] i[c,p] > f[c]"),
    (
        Group.WHOLE,
        "subchannel_weights invariants masses widths indices on_shell group_sizes: "
        "f[k] f[c,p] f[c,p] i[c,p] i[c,p] i[g]1 > f[c]",
    ),
    (
        Group.WHOLE,
        "apply_subchannel_weights channel_weights_in subchannel_weights channel_indices subchannel_indices: "
        "f[n] f[m] i[k] i[k] > f[k]",
    ),
    (Group.WHOLE, "compress_channel_weights channel_index channel_weights keep_count: i f[n] #m > f[m] i[m]"),
    (Group.WHOLE, "restore_channel_weights chan_weight_values chan_weight_indices full_count: f[m] i[m] #n > f[n]"),
    (Group.WHOLE, "pt_eta_phi_x p_ext x1 x2: f[n,4] f f > f[3n-4]"),
    (Group.WHOLE, "mirror_momenta p_ext mirror: f[n,4] i > f[n,4]"),
    (Group.WHOLE, "momenta_to_x1x2 p_ext e_cm: f[n,4] f > f f"),
    (Group.WHOLE, "uniform_invariant r s_min s_max: f f f > f f"),
    (Group.WHOLE, "uniform_invariant_inverse s s_min s_max: f f f > f f"),
    (Group.WHOLE, "breit_wigner_invariant r mass width s_min s_max: f f f f f > f f"),
    (Group.WHOLE, "breit_wigner_invariant_inverse s mass width s_min s_max: f f f f f > f f"),
    (Group.WHOLE, "stable_invariant r mass s_min s_max: f f f f > f f"),
    (Group.WHOLE, "stable_invariant_inverse s mass s_min s_max: f f f f > f f"),
    (Group.WHOLE, "stable_invariant_nu r mass nu s_min s_max: f f f f f > f f"),
    (Group.WHOLE, "stable_invariant_nu_inverse s mass nu s_min s_max: f f f f f > f f"),
    (Group.WHOLE, "fast_rambo_massless r e_cm p0: f[3n-4] f f[4] > f[n,4] f"),
    (Group.WHOLE, "fast_rambo_massless_inverse p_out e_cm: f[n,4] f > f[3n-4] f[4] f"),
    (Group.WHOLE, "fast_rambo_massless_com r e_cm: f[3n-4] f > f[n,4] f"),
    (Group.WHOLE, "fast_rambo_massive r e_cm masses p0: f[3n-4] f f[n] f[4] > f[n,4] f"),
    (Group.WHOLE, "fast_rambo_massive_inverse p_out e_cm masses: f[n,4] f f[n] > f[3n-4] f[4] f"),
    (Group.WHOLE, "fast_rambo_massive_com r e_cm masses: f[3n-4] f f[n] > f[n,4] f"),
    (Group.WHOLE, "cut_unphysical w_in p x1 x2: f f[n,4] f f > f"),
    (Group.WHOLE, f"cut_one obs min max: {_CUT}"),
    (Group.WHOLE, "cut_all obs min max: f[n] f f > f"),
    (Group.WHOLE, "cut_any obs min max: f[n] f f > f"),
    (Group.WHOLE, f"scale_transverse_energy momenta: {_SCALE}"),
    (Group.WHOLE, f"scale_transverse_mass momenta: {_SCALE}"),
    (Group.WHOLE, f"scale_half_transverse_mass momenta: {_SCALE}"),
    (Group.WHOLE, f"scale_partonic_energy momenta: {_SCALE}"),
    (Group.WHOLE, "chili_forward r e_cm m_out pt_min y_max: f[3n-2] f f[n] f[n] f[n] > f[n+2,4] f"),
    (Group.WHOLE, "chili_inverse p_ext e_cm m_out pt_min y_max: f[n+2,4] f f[n] f[n] f[n] > f[3n-2] f"),
    (Group.REFUSED, f"matrix_element args: {_EXTERNAL}"),
    (Group.WHOLE, "collect_channel_weights amp2 channel_indices channel_count: f[n] i[n]1 #m > f[m]"),
    (Group.REFUSED, f"interpolate_pdf x q pid_indices grid_logx grid_logq2 grid_coeffs: {_TABLE}"),
    (Group.REFUSED, f"interpolate_alpha_s q grid_logq2 grid_coeffs: {_TABLE}"),
    (Group.REFUSED, f"matmul x weight bias: {_NETWORK}"),
    *(
        (Group.REFUSED, f"{name} in1: {_NETWORK}")
        for name in ("relu", "leaky_relu", "elu", "gelu", "sigmoid", "scaled_tanh", "softplus")
    ),
    (Group.REFUSED, f"rqs_reshape input bin_count: {_NETWORK}"),
    (Group.REFUSED, f"rqs_find_bin input in_sizes out_sizes derivatives: {_NETWORK}"),
    (Group.REFUSED, f"rqs_forward input condition: {_NETWORK}"),
    (Group.REFUSED, f"rqs_inverse input condition: {_NETWORK}"),
    (Group.REFUSED, f"softmax input: {_NETWORK}"),
    (Group.REFUSED, f"softmax_prior input prior: {_NETWORK}"),
    (Group.WHOLE, "sample_discrete r option_count: f i > i f"),
    (Group.WHOLE, "sample_discrete_inverse index option_count: i i1 > f f"),
    (Group.WHOLE, "sample_discrete_probs r probs: f f[n] > i f"),
    (Group.WHOLE, "sample_discrete_probs_inverse index probs: i f[n] > f f"),
    (Group.REFUSED, f"discrete_histogram input weights option_count: {_BATCH}"),
    (Group.RENAME, "permute_momenta momenta permutations index: f[n,4] i[m,n]1 i > f[n,4]"),
    (Group.RENAME, "gather index choices: i f[n] > f"),
    (Group.RENAME, "gather_int index choices: i i[n] > i"),
    (Group.RENAME, "gather_vector index choices: i f[n,k] > f[k]"),
    (Group.RENAME, "select_int input indices: i[n] i[m] > i[m]"),
    (Group.RENAME, "select input indices: f[n] i[m] > f[m]"),
    (Group.RENAME, "select_vector input indices: f[n,k] i[m] > f[m,k]"),
    (Group.WHOLE, "argsort input: f[n] > i[n]"),
    (Group.REFUSED, f"quantile input q: {_BATCH}"),
    (Group.WHOLE, "one_hot index option_count: i #n > f[n]"),
    (Group.REFUSED, f"madnis_abs_weight f q: {_TRAINING}"),
    (Group.REFUSED, f"madnis_softclip f q norm threshold: {_TRAINING}"),
    (Group.REFUSED, f"madnis_variance f g q mean: {_TRAINING}"),
    (Group.REFUSED, f"madnis_single_channel_variance var abs_mean: {_TRAINING}"),
    (Group.REFUSED, f"madnis_multi_channel_variance vars abs_means: {_TRAINING}"),
    (Group.REFUSED, f"nonzero input: {_SIZES}"),
    (Group.REFUSED, f"batch_gather indices values: {_SIZES}"),
    (Group.REFUSED, f"batch_scatter indices target source: {_SIZES}"),
    (Group.REFUSED, f"random batch_size count: {_RANDOM}"),
    (Group.REFUSED, f"random_int batch_size max: {_RANDOM}"),
    (Group.REFUSED, f"unweight weights max_weight: {_SIZES}"),
    (Group.WHOLE, "vegas_forward input grid: f[n] f[n,m]1 > f[n] f[n]"),
    (Group.WHOLE, "vegas_inverse input grid: f[n] f[n,m]1 > f[n] f[n]"),
    (Group.REFUSED, f"vegas_histogram input weights bin_count: {_BATCH}"),
    (Group.REFUSED, f"histogram input weights min max bin_count: {_BATCH}"),
    # This package's own, with numbers behind those of MadSpace: the steps of t-channel chains.
    (Group.WHOLE, "t_chain_start com_energy masses: f f[n] > f f f[n] f"),
    (Group.WHOLE, "t_chain_weight weight r: f f[n] > f"),
    (Group.WHOLE, "light_cone p mass: f[4] f > f f"),
    (Group.WHOLE, "t_chain_recoil r mass rest excess weight: f f f f f > f f f f"),
    (Group.WHOLE, "t_chain_recoil_inverse recoil_excess mass rest excess weight: f f f f f > f f f f f"),
    (Group.WHOLE, f"t_chain_transfer r {_BLOCK} a b nu weight: f f f f f f f f f > f f f f f f"),
    (Group.WHOLE, f"t_chain_transfer_inverse t_abs share {_BLOCK} a b nu weight: f f f f f f f f f f > f f"),
    (Group.WHOLE, f"t_chain_transfer_cut r {_BLOCK} {_FLOORS}: f f f f f f f f f f f f > f f f f f f"),
    (Group.WHOLE, f"t_chain_transfer_cut_inverse t_abs share {_BLOCK} {_FLOORS}: f f f f f f f f f f f f f > f f"),
    (
        Group.WHOLE,
        "t_chain_scatter r_phi e1 e2 p_along p_across mass m1 m2 p0 lower_minus lower_x lower_y upper_plus sign: "
        "f f f f f f f f f[4] f f f f f > f[4] f[4]",
    ),
    (
        Group.WHOLE,
        "t_chain_scatter_inverse p1 p2 mass p0 lower_minus lower_x lower_y upper_plus sign: "
        "f[4] f[4] f f[4] f f f f f > f f",
    ),
    (Group.WHOLE, "pair_excess p1 m1 p2 m2: f[4] f f[4] f > f"),
)


@functools.cache
def catalogue() -> dict[str, Opcode]:
    """Return all opcodes by name, in the order of their numbers."""
    opcodes = {}
    for number, (group, line) in enumerate(_TABLE_TEXT):
        head, _, tail = line.partition(": ")
        name, *arguments = head.split()
        if group is Group.REFUSED:
            opcodes[name] = Opcode(name, number, tuple(arguments), group, reason=tail)
        else:
            inputs, _, outputs = tail.partition(">")
            types = tuple(inputs.split()), tuple(outputs.split())
            opcodes[name] = Opcode(name, number, tuple(arguments), group, *types)
    return opcodes
