"""The network that both frameworks train."""

STEPS, RATE = 30, 0.1

HIDDEN = """
def hidden(float(B, I) x, float(O, I) w, float(O) b) -> (y) {
    s(n, o) +=! x(n, i) * w(o, i)
    y(n, o) = tanh(s(n, o) + b(o))
}
"""
