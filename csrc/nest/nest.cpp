#include "nest/nest.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "ir/loops.h"
#include "ir/visit.h"

namespace tc::nest {

using namespace Halide::Internal;

namespace {

template <class T, class = void>
struct HasBody : std::false_type {};
template <class T>
struct HasBody<T, std::void_t<decltype(std::declval<T&>().body)>> : std::true_type {};

/// Calls `visit` with each of the node's bodies, in order of execution.
template <class Value, class Visit>
void each_child(Value& value, Visit visit) {
  std::visit(
      [&](auto& node) {
        using T = std::decay_t<decltype(node)>;
        if constexpr (std::is_same_v<T, Sequence>) {
          for (auto& part : node.parts) visit(part);
        } else if constexpr (std::is_same_v<T, Guard>) {
          visit(node.then);
          if (node.otherwise) visit(node.otherwise);
        } else if constexpr (HasBody<T>::value) {
          visit(node.body);
        }
      },
      value);
}

/// Calls `visit` with each of the node's own expressions.
template <class Value, class Visit>
void each_expression(Value& value, Visit visit) {
  std::visit(
      [&](auto& node) {
        using T = std::decay_t<decltype(node)>;
        if constexpr (std::is_same_v<T, Loop>) {
          visit(node.min);
          visit(node.extent);
        } else if constexpr (std::is_same_v<T, Guard>) {
          visit(node.condition);
        } else if constexpr (std::is_same_v<T, Binding>) {
          visit(node.value);
        } else if constexpr (std::is_same_v<T, Compute>) {
          visit(node.index);
          visit(node.value);
          if (node.scan)
            for (auto* e : {&node.scan->position, &node.scan->neighbour, &node.scan->goes_on,
                            &node.scan->scale})
              if (e->defined()) visit(*e);
        } else if constexpr (std::is_same_v<T, Prefetch>) {
          visit(node.index);
        }
      },
      value);
}

bool same(const Expr& a, const Expr& b) {
  return a.defined() == b.defined() && (!a.defined() || graph_equal(a, b));
}

/// But for their expressions.
bool same(const std::optional<ir::Scan>& a, const std::optional<ir::Scan>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->reduction == b->reduction && a->goes_on.defined() == b->goes_on.defined() &&
         a->scale.defined() == b->scale.defined() && a->adds == b->adds;
}

}  // namespace

Nest make_sequence(const std::vector<Nest>& parts) {
  Sequence sequence;
  for (const Nest& part : parts)
    if (const auto* inner = as<Sequence>(part))
      sequence.parts.insert(sequence.parts.end(), inner->parts.begin(), inner->parts.end());
    else if (part)
      sequence.parts.push_back(part);
  return sequence.parts.size() == 1 ? sequence.parts[0] : make(std::move(sequence));
}

std::vector<Nest> parts_of(const Nest& nest) {
  const auto* sequence = as<Sequence>(nest);
  return sequence ? sequence->parts : std::vector<Nest>{nest};
}

std::optional<std::vector<Compute>> computes_of(const Nest& nest) {
  std::vector<Compute> computes;
  for (const Nest& part : parts_of(nest)) {
    const auto* compute = as<Compute>(part);
    if (!compute) return std::nullopt;
    computes.push_back(*compute);
  }
  return computes;
}

Nest make_loop(const std::string& name, const Expr& min, const Expr& extent, Role role, Nest body) {
  return make(Loop{name, min, extent, role, std::nullopt, std::move(body)});
}

Nest with_body(const Loop& loop, Nest body) {
  Loop changed = loop;
  changed.body = std::move(body);
  return make(std::move(changed));
}

static Nest as_serial(const Loop& loop, Nest body) {
  Loop serial = loop;
  serial.role = Role::Serial;
  serial.body = std::move(body);
  return make(std::move(serial));
}

static Nest without_uneven_unrolling(const Nest& nest) {
  const Nest inside = map_children(nest, without_uneven_unrolling);
  const auto* loop = as<Loop>(inside);
  const bool uneven = loop && loop->role == Role::Unrolled && !as_const_int(loop->extent);
  return uneven ? as_serial(*loop, loop->body) : inside;
}

Nest make_serial(const Loop& vector) {
  return as_serial(vector, without_uneven_unrolling(vector.body));
}

Nest prepend(const Nest& loop, std::vector<Nest> parts) {
  if (parts.empty()) return loop;
  const auto* around = as<Loop>(loop);
  TC_INTERNAL_CHECK(around, "something is put in front of what is no loop's body");
  parts.push_back(around->body);
  return with_body(*around, make_sequence(parts));
}

Nest map_children(const Nest& nest, const std::function<Nest(const Nest&)>& change) {
  Node::Value value = nest->value;
  bool changed = false;
  each_child(value, [&](Nest& child) {
    Nest made = change(child);
    changed = changed || made != child;
    child = std::move(made);
  });
  if (!changed) return nest;
  // What became a sequence in a sequence is dissolved.
  if (const auto* sequence = std::get_if<Sequence>(&value)) return make_sequence(sequence->parts);
  return std::make_shared<const Node>(std::move(value));
}

void for_each_child(const Nest& nest, const std::function<void(const Nest&)>& visit) {
  each_child(nest->value, visit);
}

Nest map_own_expressions(const Nest& nest, const std::function<Expr(const Expr&)>& change) {
  Node::Value value = nest->value;
  bool changed = false;
  each_expression(value, [&](Expr& e) {
    Expr made = change(e);
    changed = changed || !made.same_as(e);
    e = std::move(made);
  });
  return changed ? std::make_shared<const Node>(std::move(value)) : nest;
}

Nest map_expressions(const Nest& nest, const std::function<Expr(const Expr&)>& change) {
  Nest below =
      map_children(nest, [&](const Nest& child) { return map_expressions(child, change); });
  TC_INTERNAL_CHECK(!as<Lowered>(nest), "expressions are changed behind the lowering");
  return map_own_expressions(below, change);
}

void for_each_own_expression(const Nest& nest, const std::function<void(const Expr&)>& visit) {
  each_expression(nest->value, visit);
}

Nest map_computes(const Nest& nest, const std::function<Nest(const Compute&)>& change) {
  if (const auto* compute = as<Compute>(nest)) return change(*compute);
  return map_children(nest, [&](const Nest& child) { return map_computes(child, change); });
}

void for_each_node(const Nest& nest, const std::function<void(const Nest&)>& visit) {
  visit(nest);
  for_each_child(nest, [&](const Nest& child) { for_each_node(child, visit); });
}

void for_each_expression(const Nest& nest, const std::function<void(const Expr&)>& visit) {
  for_each_node(nest, [&](const Nest& node) { each_expression(node->value, visit); });
}

Nest substitute(const std::string& name, const Expr& value, const Nest& nest) {
  if (const auto* lowered = as<Lowered>(nest))
    return make(Lowered{Halide::Internal::substitute(name, value, lowered->stmt)});
  // Not below what has a name of its own that is the same.
  const auto* loop = as<Loop>(nest);
  const auto* binding = as<Binding>(nest);
  const bool hidden = (loop && loop->name == name) || (binding && binding->name == name);
  Nest below = hidden ? nest : map_children(nest, [&](const Nest& child) {
    return substitute(name, value, child);
  });
  return map_own_expressions(
      below, [&](const Expr& e) { return Halide::Internal::substitute(name, value, e); });
}

void for_each_load(const Expr& e, const std::function<void(const Load&)>& visit) {
  ir::for_each<Load>(e, [&](const Load* op) { visit(*op); });
}

void for_each_lazy_load(const Expr& e, const std::function<void(const Load&)>& visit) {
  int choices = 0;  // around what is visited
  ir::visit(
      e,
      [&](const Load* op, ir::Visitor& self) {
        if (choices > 0) visit(*op);
        self.inside(op);
      },
      [&](const Call* op, ir::Visitor& self) {
        const int choice = op->is_intrinsic(Call::if_then_else) ? 1 : 0;
        choices += choice;
        self.inside(op);
        choices -= choice;
      });
}

Expr map_loads(const Expr& e, const std::function<Expr(const Load&)>& change) {
  return ir::mutate(e, [&](const Load* op, ir::Mutator& self) {
    const Expr inner = self.inside(op);
    const auto* load = inner.as<Load>();
    return load ? change(*load) : inner;
  });
}

void for_each_load(const Nest& nest, const std::function<void(const Load&)>& visit) {
  for_each_expression(nest, [&](const Expr& e) { for_each_load(e, visit); });
  for_each_node(nest, [&](const Nest& node) {
    if (const auto* lowered = as<Lowered>(node))
      ir::for_each<Load>(lowered->stmt, [&](const Load* op) { visit(*op); });
  });
}

void for_each_read(const Nest& nest, const std::function<void(const Load&)>& visit) {
  for_each_load(nest, visit);
  for_each_compute(nest, [&](const Compute& compute) {
    if (compute.reduction != ir::Reduction::None) for_each_load(load_of(compute), visit);
  });
}

void for_each_compute(const Nest& nest, const std::function<void(const Compute&)>& visit) {
  for_each_node(nest, [&](const Nest& node) {
    if (const auto* compute = as<Compute>(node)) visit(*compute);
  });
}

std::set<std::string> loaded_buffers(const Nest& nest) {
  std::set<std::string> names;
  for_each_read(nest, [&](const Load& load) { names.insert(load.name); });
  return names;
}

std::set<std::string> stored_buffers(const Nest& nest) {
  std::set<std::string> names;
  for_each_node(nest, [&](const Nest& node) {
    if (const auto* compute = as<Compute>(node)) names.insert(compute->buffer);
    if (const auto* lowered = as<Lowered>(node)) names.merge(ir::stored_buffers(lowered->stmt));
  });
  return names;
}

std::set<std::string> used_buffers(const Nest& nest) {
  std::set<std::string> names = stored_buffers(nest);
  names.merge(loaded_buffers(nest));
  return names;
}

int widest_element(const Nest& nest) {
  int bits = 0;
  for_each_load(nest, [&](const Load& load) { bits = std::max(bits, load.type.bits()); });
  for_each_node(nest, [&](const Nest& node) {
    if (const auto* compute = as<Compute>(node))
      bits = std::max(bits, memory_type(compute->type).bits());
    if (const auto* lowered = as<Lowered>(node))
      ir::for_each<Store>(lowered->stmt,
                          [&](const Store* op) { bits = std::max(bits, op->value.type().bits()); });
  });
  return bits;
}

Halide::Parameter alignment_of(const std::string& tensor, Type type) {
  Halide::Parameter parameter(memory_type(type), true, 1, tensor);
  parameter.set_host_alignment(type.bytes());
  return parameter;
}

Expr to_memory(const Expr& value) {
  return value.type().is_bool()
             ? Halide::select(value, Halide::cast<uint8_t>(1), Halide::cast<uint8_t>(0))
             : value;
}

Expr from_memory(const Expr& loaded, Type type) {
  return type.is_bool() ? loaded != Halide::cast<uint8_t>(0) : loaded;
}

Expr load_of(const Compute& compute) {
  return ir::make_load(memory_type(compute.type), compute.buffer, compute.index, compute.parameter);
}

Expr computed_value(const Compute& compute) {
  return compute.scan ? ir::scan_value(*compute.scan, compute.value) : compute.value;
}

Expr stored_value(const Compute& compute) {
  Expr value = computed_value(compute);
  if (compute.reduction != ir::Reduction::None)
    value = ir::combine(compute.reduction, from_memory(load_of(compute), compute.type), value);
  return to_memory(value);
}

bool same(const Nest& a, const Nest& b) {
  if (a == b) return true;
  if (!a || !b || a->value.index() != b->value.index()) return false;
  std::vector<Expr> first, second;
  each_expression(a->value, [&](const Expr& e) { first.push_back(e); });
  each_expression(b->value, [&](const Expr& e) { second.push_back(e); });
  if (first.size() != second.size()) return false;
  for (size_t k = 0; k < first.size(); ++k)
    if (!same(first[k], second[k])) return false;
  const bool plain = std::visit(
      [&](const auto& n) {
        using T = std::decay_t<decltype(n)>;
        [[maybe_unused]] const T& m = std::get<T>(b->value);
        if constexpr (std::is_same_v<T, Loop>)
          return n.name == m.name && n.role == m.role && n.point == m.point;
        else if constexpr (std::is_same_v<T, Binding>)
          return n.name == m.name;
        else if constexpr (std::is_same_v<T, Buffer>)
          return n.name == m.name && n.type == m.type && n.elements == m.elements &&
                 n.memory == m.memory;
        else if constexpr (std::is_same_v<T, Tile>)
          return n.dimensions == m.dimensions;
        else if constexpr (std::is_same_v<T, Intrinsic>)
          return n.instruction == m.instruction;
        else if constexpr (std::is_same_v<T, Compute>)
          return n.buffer == m.buffer && n.type == m.type && n.reduction == m.reduction &&
                 n.atomic == m.atomic && n.over_threads == m.over_threads &&
                 n.contracts == m.contracts && n.streams == m.streams && same(n.scan, m.scan);
        else if constexpr (std::is_same_v<T, Prefetch>)
          return n.buffer == m.buffer && n.type == m.type && n.cache == m.cache;
        else if constexpr (std::is_same_v<T, Lowered>)
          return graph_equal(n.stmt, m.stmt);
        else
          return true;
      },
      a->value);
  if (!plain) return false;
  std::vector<Nest> mine, others;
  for_each_child(a, [&](const Nest& child) { mine.push_back(child); });
  for_each_child(b, [&](const Nest& child) { others.push_back(child); });
  return std::equal(mine.begin(), mine.end(), others.begin(), others.end(),
                    [](const Nest& p, const Nest& q) { return same(p, q); });
}

}  // namespace tc::nest
