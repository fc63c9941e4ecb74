"""The texts of the papers (tests/workloads.py) and the definitions of ops/ that say the same."""

from __future__ import annotations

from collections.abc import Callable


def same(*inputs):
    return inputs


def followed_by(*scalars: float) -> Callable[..., tuple]:
    return lambda *inputs: (*inputs, *scalars)


#: Name of the text, name of the definition, and its arguments from those of the text. What the
#: text accumulates into comes last.
PUBLISHED: dict[str, tuple[str, Callable[..., tuple]]] = {
    "tmm": ("matmul_transposed_b", same),
    "tbmm": ("batched_matmul_transposed_b", same),
    "gconv": ("group_convolution", same),
    "1LUT": ("lookup_table", same),
    "2LUT": ("two_lookup_tables", same),
    "C3": ("matmul_transposed_b", same),
    "MLP1": ("mlp1", same),
    "MLP3": ("mlp3", same),
    "mv": ("matrix_vector", same),
    "mv_two_statements": ("matrix_vector", same),
    "sgemm": ("addmm", lambda a, b, x, y, c: (c, x, y, b, a)),
    "fcrelu": ("mlp1", same),
    "conv2d": ("convolution_without_bias", same),
    "maxpool2x2": ("max_pooling_strided", followed_by(2, 2, 2, 2)),
    "gather": ("take", same),
    "sconv2d": ("strided_convolution", lambda sh, sw, i, w, b: (i, w, b, sh, sw)),
    "outerProductMM": ("outer_product_matmul", same),
    "mm": ("matmul", same),
    "kronecker3": ("kronecker_3", same),
    "group_normalization": ("group_normalization_sums", same),
    "moments2_2D_1D": ("moments", same),
    "dense": ("matmul", same),
    "bmm": ("batched_matmul", same),
    "spmv": ("matrix_vector", same),
    "spmm": ("matmul", same),
    "mttkrp": ("mttkrp", same),
    "unit_conv": ("quantized_convolution", followed_by(1)),
    "unit_conv_strided": ("quantized_convolution", followed_by(2)),
    "softmax": ("softmax", same),
    "layer_normalization": ("layer_normalization", followed_by(1e-5)),
}

#: Texts without a meaning as printed, and the definitions of what was meant.
MEANT = {
    "conv1d": "convolution_1d_single",
    "dconv": "group_convolution",
    "prodModel": "production_model",
}
