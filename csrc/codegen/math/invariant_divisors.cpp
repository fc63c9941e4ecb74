#include "codegen/math/invariant_divisors.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/math/named.h"
#include "codegen/math/strict_math.h"
#include "codegen/names.h"
#include "ir/loops.h"
#include "ir/visit.h"
#include "machine/limits.h"

namespace tc::codegen {
namespace {

// For these no quotient of numbers far from the ends of the range leaves it.
constexpr double kSmallestDivisor = 0x1p-20, kLargestDivisor = 0x1p+20;

/// LLVM multiplies by the reciprocal of a power of two, which is exact.
bool is_power_of_two(const Expr& e) {
  auto value = as_const_float(e);
  int exponent = 0;
  return value && std::abs(std::frexp(*value, &exponent)) == 0.5;
}

/// What an innermost loop divides by, and whether there are vectors in it.
struct Divisors {
  std::vector<Expr> values;
  bool vectors = false;
  Scope<> changing;              ///< variables that the loop changes
  std::set<std::string> stores;  ///< buffers that it writes
};
Divisors find_divisors(const For* loop) {
  Divisors found;
  found.changing.push(loop->name);
  // What a choice keeps from being read must not be read in front of it.
  bool chosen = false;
  auto change = [&](const auto* op, ir::Visitor& self) {
    found.changing.push(op->name);
    self.inside(op);
  };
  auto store = [&](const auto* op, ir::Visitor& self) {
    found.stores.insert(op->name);
    self.inside(op);
  };
  auto choose = [&](const auto* op, ir::Visitor& self) {
    ScopedValue<bool> inside(chosen, true);
    self.inside(op);
  };
  ir::visit(
      loop->body,
      [&](const For* op, ir::Visitor& self) {
        found.vectors = found.vectors || op->for_type == ForType::Vectorized;
        change(op, self);
      },
      [&](const LetStmt* op, ir::Visitor& self) { change(op, self); },
      [&](const Let* op, ir::Visitor& self) { change(op, self); },
      [&](const Allocate* op, ir::Visitor& self) { store(op, self); },
      [&](const Store* op, ir::Visitor& self) { store(op, self); },
      [&](const Select* op, ir::Visitor& self) { choose(op, self); },
      [&](const IfThenElse* op, ir::Visitor& self) { choose(op, self); },
      [&](const Call* op, ir::Visitor& self) {
        op->is_intrinsic(Call::if_then_else) ? choose(op, self) : self.inside(op);
      },
      [&](const Div* op, ir::Visitor& self) {
        self.inside(op);
        const Expr& d = op->b;
        if (!d.type().is_float() || d.type().bits() < 32 || d.type().is_vector() ||
            is_power_of_two(d) || (chosen && ir::has_load(d)))
          return;
        if (std::none_of(found.values.begin(), found.values.end(),
                         [&](const Expr& e) { return Halide::Internal::equal(e, d); }))
          found.values.push_back(d);
      });
  auto is_stored = [&](const Load* op) { return found.stores.count(op->name) > 0; };
  auto changes = [&](const Expr& divisor) {
    return expr_uses_vars(divisor, found.changing) || ir::any<Load>(divisor, is_stored);
  };
  found.values.erase(std::remove_if(found.values.begin(), found.values.end(), changes),
                     found.values.end());
  return found;
}

struct Divisor {
  Expr value;
  std::string name = unique_name("divisor"), reciprocal = unique_name("reciprocal");
};

Expr quotient(const Expr& x, const Divisor& divisor) {
  using namespace strict_math;
  Expr d = Variable::make(x.type(), divisor.name), r = Variable::make(x.type(), divisor.reciprocal);
  return named(multiply(x, r), [&](const Expr& near) {
    // q * d - x and not x - q * d, since then the correction of a zero keeps the zero's sign.
    Expr corrected = subtract(near, multiply(subtract(multiply(near, d), x), r));
    return named(corrected, [&](const Expr& q) {
      // There is nothing to correct in an infinity.
      return select(strict_math::equal(q, q), q, near);
    });
  });
}

Stmt replace_quotients(const Stmt& stmt, const std::vector<Divisor>& divisors) {
  return ir::mutate(stmt, [&](const Div* op, ir::Mutator& self) {
    for (const Divisor& d : divisors)
      if (Halide::Internal::equal(d.value, op->b))
        return named(self.mutate(op->a), [&](const Expr& x) { return quotient(x, d); });
    return self.inside(op);
  });
}

/// Operations on floats of every iteration: what the loop leaves alone is computed before it.
struct Operations {
  int sums = 0, products = 0, others = 0;
  int divisions = 0;
  int invariant = 0;  ///< of these, divisions that products may stand for

  /// Besides divisions. Products that are added take no operation of their own.
  int all() const { return std::max(sums, products) + others; }
};
Operations count_operations(const For* loop, const Divisors& divisors) {
  Operations found;
  bool changes = false;  // what has been visited of an operation's operands
  const auto count = [&](int& operations, bool counts, const auto* op, ir::Visitor& self) {
    const bool before = std::exchange(changes, false);
    self.inside(op);
    operations += counts && changes;
    changes = changes || before;
  };
  const auto operation = [&](int& operations) {
    return [&, &operations](const auto* op, ir::Visitor& self) {
      count(operations, op->a.type().is_float(), op, self);
    };
  };
  ir::visit(
      loop->body,
      [&](const Variable* op, ir::Visitor&) {
        changes = changes || divisors.changing.contains(op->name);
      },
      [&](const Load* op, ir::Visitor& self) {
        changes = changes || divisors.stores.count(op->name) > 0;
        self.inside(op);
      },
      [&](const Add* op, ir::Visitor& self) { operation(found.sums)(op, self); },
      [&](const Sub* op, ir::Visitor& self) { operation(found.sums)(op, self); },
      [&](const Mul* op, ir::Visitor& self) { operation(found.products)(op, self); },
      [&](const Min* op, ir::Visitor& self) { operation(found.others)(op, self); },
      [&](const Max* op, ir::Visitor& self) { operation(found.others)(op, self); },
      [&](const LT* op, ir::Visitor& self) { operation(found.others)(op, self); },
      [&](const LE* op, ir::Visitor& self) { operation(found.others)(op, self); },
      [&](const EQ* op, ir::Visitor& self) { operation(found.others)(op, self); },
      [&](const Select* op, ir::Visitor& self) {
        count(found.others, op->type.is_float(), op, self);
      },
      [&](const Div* op, ir::Visitor& self) {
        const int before = found.divisions;
        operation(found.divisions)(op, self);
        const auto is_divisor = [&](const Expr& e) { return Halide::Internal::equal(e, op->b); };
        found.invariant += found.divisions > before &&
                           std::any_of(divisors.values.begin(), divisors.values.end(), is_divisor);
      },
      [&](const Call* op, ir::Visitor& self) {
        if (op->is_intrinsic({Call::strict_add, Call::strict_sub}))
          count(found.sums, true, op, self);
        else if (op->is_intrinsic(Call::strict_mul))
          count(found.products, true, op, self);
        else if (op->is_intrinsic(Call::strict_div))
          count(found.divisions, true, op, self);
        else if (op->is_intrinsic({Call::strict_lt, Call::strict_le, Call::strict_eq}))
          count(found.others, true, op, self);
        else
          self.inside(op);
      });
  return found;
}

/// Whether divisions that stay take no longer than their products, of a vector of a unit.
bool hides(const Operations& found, const CpuMachine& machine) {
  constexpr int kOperations = 5;  // that stand for a division
  const double division = machine.cycles_of_division(machine.step_bits());
  const auto cycles = [&](int operations, int divisions) {
    return std::max(static_cast<double>(operations) / machine.multiply_adds, divisions * division);
  };
  return cycles(found.all(), found.divisions) <=
         cycles(found.all() + kOperations * found.invariant, found.divisions - found.invariant);
}

/// A serial loop without other serial loops inside.
Stmt change_innermost(const For* op, const CpuMachine& machine) {
  const Divisors found = find_divisors(op);
  auto extent = as_const_int(op->extent);
  if (!found.vectors || found.values.empty() || found.values.size() > machine::kMostDivisors ||
      (extent && *extent < machine::kDividedIterations) ||
      hides(count_operations(op, found), machine))
    return op;

  std::vector<Divisor> divisors;
  Expr usual = const_true();
  for (const Expr& value : found.values) {
    const Divisor& divisor = divisors.emplace_back(Divisor{value});
    Expr d = Variable::make(value.type(), divisor.name);
    usual = usual && make_const(d.type(), kSmallestDivisor) < d &&
            d < make_const(d.type(), kLargestDivisor);
  }
  Stmt result = IfThenElse::make(usual, replace_quotients(op, divisors), op);
  for (const Divisor& divisor : divisors) {
    Expr d = Variable::make(divisor.value.type(), divisor.name);
    result = LetStmt::make(divisor.reciprocal, make_one(d.type()) / d, result);
  }
  for (const Divisor& divisor : divisors)
    result = LetStmt::make(divisor.name, divisor.value, result);
  return extent ? result : IfThenElse::make(op->extent >= machine::kDividedIterations, result, op);
}

}  // namespace

Stmt multiply_by_reciprocals(const Stmt& stmt, const CpuMachine& machine) {
  int64_t serial_loops = 0;  // left so far
  return ir::mutate(stmt, [&](const For* op, ir::Mutator& self) -> Stmt {
    if (op->for_type == ForType::Vectorized) return op;
    const int64_t before = serial_loops;
    Stmt result = self.inside(op);
    if (op->for_type != ForType::Serial) return result;
    return serial_loops++ == before ? change_innermost(op, machine) : result;
  });
}

}  // namespace tc::codegen
