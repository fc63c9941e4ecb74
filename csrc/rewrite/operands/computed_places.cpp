#include "rewrite/operands/computed_places.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ir/expressions/choices.h"
#include "ir/expressions/reads.h"
#include "ir/expressions/simplify.h"
#include "ir/intervals.h"

namespace tc::ir {

using namespace Halide::Internal;

namespace {

/// Whether it is what a table has, and a number of steps from there.
bool is_table_entry(Expr e) {
  while (true) {
    if (const auto* cast = e.as<Cast>()) {
      e = cast->value;
    } else if (const auto* sum = e.as<Add>(); sum && is_const(sum->b)) {
      e = sum->a;
    } else {
      const auto* call = e.as<Call>();
      return call && !read_name(call).empty();
    }
  }
}

/// Whether it does whatever is chosen.
bool stays_inside(const Expr& subscript, int64_t size, const std::vector<Iterator>& domain) {
  const ConstantInterval places = constant_integer_bounds(subscript, index_intervals(domain));
  return places.is_bounded() && places.min >= 0 && places.max < size;
}

}  // namespace

Expr ComputedPlace::read_through(const Tensor& tensor, const Expr& place_table,
                                 const Expr& inside_table) const {
  std::vector<Expr> subscripts = read->args;
  for (const size_t d : dimensions) subscripts[d] = d == counted ? place_table : Expr(0);
  const Expr value = ir::read(tensor, subscripts);
  return inside.defined() ? Select::make(inside_table, value, otherwise) : value;
}

std::optional<ComputedPlace> find_computed_place(const Expr& e, const Program& program,
                                                 const Layouts& layouts,
                                                 const std::vector<Iterator>& domain) {
  ComputedPlace found;
  const std::optional<Choice> choice = find_choice(e);
  found.read = choice ? choice->yes.as<Call>() : e.as<Call>();
  const std::string tensor = found.read ? read_name(found.read) : "";
  if (!program.tensors.count(tensor)) return std::nullopt;
  if (choice) {
    if (!has_data(choice->condition) || !is_const(choice->no)) return std::nullopt;
    found.inside = choice->condition;
    found.otherwise = choice->no;
  }
  const Layout& layout = layouts.at(tensor);
  bool computed = choice.has_value();
  int64_t span = 1;
  std::optional<size_t> smallest;
  for (size_t d = 0; d < found.read->args.size(); ++d) {
    const Expr& subscript = found.read->args[d];
    if (layout.sizes[d] == 0) return std::nullopt;
    if (!has_data(subscript)) {
      if (choice && !stays_inside(subscript, layout.sizes[d], domain)) return std::nullopt;
      continue;
    }
    if (layout.strides[d] <= 0) return std::nullopt;
    found.dimensions.insert(d);
    span += (layout.sizes[d] - 1) * layout.strides[d];
    computed = computed || !is_table_entry(subscript);
    if (!smallest || layout.strides[d] < layout.strides[*smallest]) smallest = d;
  }
  if (!smallest || !computed || span > std::numeric_limits<int32_t>::max()) return std::nullopt;
  found.counted = *smallest;
  for (const size_t d : found.dimensions) {
    if (layout.strides[d] % layout.strides[*smallest] != 0) return std::nullopt;
    const auto steps = static_cast<int32_t>(layout.strides[d] / layout.strides[*smallest]);
    Expr subscript = found.read->args[d];
    if (subscript.type() != Halide::Int(32)) subscript = Cast::make(Halide::Int(32), subscript);
    if (steps != 1) subscript = subscript * steps;
    found.place = found.place.defined() ? found.place + subscript : subscript;
  }
  found.place = simplify_integers(found.place, {});
  if (choice) found.place = choose_lazily(choice->condition, found.place, 0);
  return found;
}

}  // namespace tc::ir
