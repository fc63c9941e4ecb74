#include "codegen/raise.h"

#include <sstream>

#include "base/error.h"
#include "codegen/accumulations.h"
#include "codegen/copies.h"
#include "ir/loops.h"

namespace tc::codegen {
namespace {

using namespace Halide::Internal;
using ir::Expr;
using ir::ForType;
using ir::Stmt;
using nest::Nest;

constexpr char kTile[] = "tc.register_tile:";
constexpr char kPoint[] = "point";
constexpr size_t kTileLength = sizeof kTile - 1, kPointLength = sizeof kPoint - 1;

std::optional<size_t> point_dimension(const std::string& name) {
  if (name.compare(0, kPointLength, kPoint) != 0) return std::nullopt;
  return std::stoul(name.substr(kPointLength));
}

nest::Role role_of(ForType type) {
  switch (type) {
    case ForType::Serial: return nest::Role::Serial;
    case ForType::Parallel: return nest::Role::Parallel;
    case ForType::Vectorized: return nest::Role::Vector;
    case ForType::Unrolled: return nest::Role::Unrolled;
    case ForType::GPUBlock: return nest::Role::Block;
    case ForType::GPUThread: return nest::Role::Thread;
    default: throw InternalError(__FILE__, __LINE__, "a loop of another type");
  }
}

template <class Node>
bool match(const Expr& e, const Store& store, Expr& term) {
  const auto* op = e.as<Node>();
  if (!op || !ir::loads_itself(op->a, store)) return false;
  term = op->b;
  return true;
}

bool is_neighbour(const ir::ScanTerm& split, const Store& store) {
  const auto* load = split.scan.neighbour.as<Load>();
  return load && load->name == store.name && !ir::loads_itself(load, store);
}

Nest raise_store(const Store& store) {
  nest::Compute made;
  made.buffer = store.name;
  made.type = store.value.type();
  made.index = store.index;
  made.value = store.value;
  made.parameter = store.param;
  TC_INTERNAL_CHECK(is_const_one(store.predicate), "a predicated store");
  if (const Call* sum = accumulation_of(store.value)) {
    made.reduction = ir::Reduction::Sum;
    made.contracts = true;
    made.value = Mul::make(sum->args[1], sum->args[2]);
  } else if (const auto* truth = store.value.as<Select>()) {
    const auto* any = truth->condition.as<Or>();
    const auto* all = truth->condition.as<And>();
    const NE* before = any ? any->a.as<NE>() : all ? all->a.as<NE>() : nullptr;
    if (made.type == Halide::UInt(8) && is_const_one(truth->true_value) &&
        is_const_zero(truth->false_value) && before && ir::loads_itself(before->a, store)) {
      made.type = Halide::Bool();
      made.reduction = any ? ir::Reduction::Or : ir::Reduction::And;
      made.value = any ? any->b : all->b;
    }
  } else if (auto split = ir::split_scan(store.value); split && is_neighbour(*split, store)) {
    made.scan = split->scan;
    made.value = split->term;
  } else if (match<Add>(store.value, store, made.value)) {
    made.reduction = ir::Reduction::Sum;
  } else if (match<Mul>(store.value, store, made.value)) {
    made.reduction = ir::Reduction::Product;
  } else if (match<Min>(store.value, store, made.value)) {
    made.reduction = ir::Reduction::Min;
  } else if (match<Max>(store.value, store, made.value)) {
    made.reduction = ir::Reduction::Max;
  }
  return nest::make(std::move(made));
}

/// Undoes ir::make_prefetch, but for the type, of which the size counts; null for another form.
Nest raise_prefetch(const Stmt& stmt) {
  const auto* call = stmt.as<Evaluate>()->value.as<Call>();
  const auto* address = call->args[0].as<Reinterpret>();
  const auto* sum = address ? address->value.as<Add>() : nullptr;
  const auto* base = sum ? sum->a.as<Reinterpret>() : nullptr;
  const auto* buffer = base ? base->value.as<Variable>() : nullptr;
  const auto* offset = sum ? sum->b.as<Cast>() : nullptr;
  const auto* product = offset ? offset->value.as<Mul>() : nullptr;
  auto bytes = product ? as_const_int(product->b) : std::nullopt;
  auto caches = as_const_int(call->args[2]);
  if (!buffer || !bytes || !caches) return nullptr;
  return nest::make(nest::Prefetch{buffer->name, Halide::UInt(static_cast<int>(8 * *bytes)),
                                   product->a, static_cast<int>(4 - *caches)});
}

}  // namespace

Nest raise(const Stmt& stmt) {
  if (const auto* op = stmt.as<For>()) {
    nest::Loop loop{op->name, op->min, op->extent, role_of(op->for_type), {}, raise(op->body)};
    if (loop.role == nest::Role::Unrolled || loop.role == nest::Role::Vector)
      loop.point = point_dimension(op->name);
    return nest::make(std::move(loop));
  }
  if (const auto* op = stmt.as<Block>())
    return nest::make_sequence({raise(op->first), raise(op->rest)});
  if (const auto* op = stmt.as<IfThenElse>())
    return nest::make(nest::Guard{op->condition, raise(op->then_case),
                                  op->else_case.defined() ? raise(op->else_case) : nullptr});
  if (const auto* op = stmt.as<LetStmt>())
    return nest::make(nest::Binding{op->name, op->value, raise(op->body)});
  if (const auto* op = stmt.as<Allocate>())
    return nest::make(nest::Buffer{
        op->name, op->type, *as_const_int(op->extents[0]),
        op->memory_type == Halide::MemoryType::Heap ? nest::Memory::Heap : nest::Memory::Stack,
        raise(op->body)});
  if (const auto* op = stmt.as<ProducerConsumer>()) {
    if (op->name.compare(0, kTileLength, kTile) == 0) {
      nest::Tile tile;
      std::istringstream list(op->name.substr(kTileLength));
      for (nest::TileDimension d; list >> d.full >> d.rest;) tile.dimensions.push_back(d);
      tile.body = raise(op->body);
      return nest::make(std::move(tile));
    }
    return nest::make(nest::Copy{raise(op->body)});
  }
  if (const auto* op = stmt.as<Store>())
    return op->value.type().is_scalar() ? raise_store(*op) : nest::make(nest::Lowered{stmt});
  Nest prefetch = ir::is_prefetch(stmt) ? raise_prefetch(stmt) : nullptr;
  return prefetch ? prefetch : nest::make(nest::Lowered{stmt});
}

Stmt mark_register_tile(const std::vector<nest::TileDimension>& dimensions, const Stmt& body) {
  std::string name = kTile;
  for (const nest::TileDimension& d : dimensions) name += concat(" ", d.full, " ", d.rest);
  return ProducerConsumer::make(name, true, body);
}

}  // namespace tc::codegen
