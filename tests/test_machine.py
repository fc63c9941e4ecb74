"""`TC_MACHINE`: decisions for a machine that is described instead of the one at hand."""

from __future__ import annotations

import pytest
import torch

import tensor_comprehensions as tc


def test_another_machine_decides_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine is part of what kernels are kept by.
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    values = torch.zeros(128, 256), torch.zeros(256, 256)
    monkeypatch.setenv("TC_MACHINE", "vector_bits=512,vector_registers=32,library_rate=1")
    wide = tc.compile(text, "f", None, *values).explain()
    monkeypatch.setenv("TC_MACHINE", "vector_bits=256,vector_registers=16,cores=2,library_rate=1")
    narrow = tc.compile(text, "f", None, *values).explain()
    assert "64 of n (4 vectors of 16)" in wide
    assert " of 8)" in narrow
    assert "256-bit vectors, 16 registers" in narrow


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("cores", "TC_MACHINE: 'cores' is no name and number, as in cores=2"),
        ("cores=-1", "TC_MACHINE: 'cores=-1' is no name and number"),
        ("caches=3", "TC_MACHINE: 'caches=3' is not understood; it takes vector_bits"),
        ("vector_bits=100", "'vector_bits=100' is not understood; .*a multiple of 128"),
        ("library_rate=fast", "TC_MACHINE: 'library_rate=fast' is no name and number"),
        ("vector_registers=1", "'vector_registers=1' is not understood; .*at least 8"),
    ],
)
def test_machine_descriptions_are_checked(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.setenv("TC_MACHINE", value)
    with pytest.raises(tc.TCError, match=message):
        tc.compile("def g(float(N) A) -> (O) { O(i) = A(i) }", "g", None, torch.zeros(5))
