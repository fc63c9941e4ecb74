// Sums over pairs of indices that a condition compares: steps, as many as there are indices.
#pragma once

#include "ir/layout.h"
#include "ir/program.h"
#include "machine/cpu.h"

namespace tc::ir {

/// A sum Z(d) +=! s <= t ? U(t, d) * X(s, d) : 0 is a sum over t of prefix reductions over s
/// (find_scans), and gets a statement in front that makes these. Where the terms have a weight w(t,
/// s) and a factor with increments (linear_recurrences), as the derivative of a decay has, it
/// sums over the steps v between s and t instead, whose increments make the factor, the products
/// increment(v) * step(v) * H(v - 1) * L(v) of the states H(t) +=! s <= t ? w(t, s) * X(s) : 0 and
/// their adjoints L(s) +=! s <= t ? w(t, s) * U(t) : 0, which are scans that other derivatives have
/// too. Terms in which the factor is 0 are none, whatever they are multiplied by. Runs on a
/// specialised program whose indices count from 0, before nest_sums; adds the layouts of its
/// temporaries.
void sum_pairs(Program& program, Layouts& layouts, const CpuMachine& machine);

}  // namespace tc::ir
