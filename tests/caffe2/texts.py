"""Texts of one's own, for TcOp."""

MATMUL = """
def matmul(float(M, N) A, float(N, K) B) -> (output) {
    output(m, k) +=! A(m, r_n) * B(r_n, k)
}
"""
# As a net of 2018 has them, which gives the gradient as a text.
MATMUL_GRADIENT = """
def matmul_grad(float(M, N) A, float(N, K) B, float(M, K) d_O) -> (d_A, d_B) {
    d_A(m, n) +=! d_O(m, r_k) * B(n, r_k)
    d_B(n, k) +=! d_O(r_m, k) * A(r_m, n)
}
"""
MATMUL_LISTS = {
    "inputs_used_by_gradient": [0, 1],
    "output_gradients_used_by_gradient": [0],
    "inputs_to_compute_gradients_of": [0, 1],
}
BATCHED = """
def batched(float(B, N, M) X, float(B, M, K) Y) -> (Z) {
    Z(b, i, j) +=! X(b, i, k) * Y(b, k, j)
}
"""
SIGMOID = """
def sigmoid(float(B, N, M) X) -> (Z) {
    Z(b, i, j) = 1 / (1 + exp(-X(b, i, j)))
}
"""
NORMALIZED = """
def normalized(float(N, D) X, float(D) scale) -> (Y, mean) {
    mean(n) +=! X(n, d) / D
    variance(n) +=! (X(n, d) - mean(n)) * (X(n, d) - mean(n)) / D
    Y(n, d) = (X(n, d) - mean(n)) / sqrt(variance(n) + 0.001) * scale(d)
}
"""
GATHER = """
def gather(float(N) X, int32(A, B) I) -> (Z) {
    Z(i, j) = X(I(i, j))
}
"""
SCALED = """
def scaled(float(N) X, float factor) -> (Y) {
    Y(n) = factor * X(n) * X(n)
}
"""
STRIDED = """
def strided(float(N) X, float(K) W, int stride) -> (Y) {
    Y(n) +=! X(stride * n + k) * W(k)
}
"""
TOTAL = """
def total(float(N, M) X) -> (sum) {
    sum +=! X(n, m) * X(n, m)
}
"""
ACCUMULATED = """
def accumulated(float(N, M) X) -> (sum) {
    sum(n) += X(n, m)
}
"""
