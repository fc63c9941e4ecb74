#include <regex>

#include "base/error.h"
#include "ir/compare.h"
#include "nest/nest.h"

namespace tc::nest {
namespace {

const char* name_of(Role role) {
  switch (role) {
    case Role::Serial: return "for";
    case Role::Parallel: return "parallel";
    case Role::Vector: return "vector";
    case Role::Unrolled: return "unrolled";
    case Role::Block: return "block";
    case Role::Thread: return "thread";
  }
  throw InternalError(__FILE__, __LINE__, "a loop without a role");
}

/// As Halide prints it, without the types that it puts in front of loads and calls,
/// "(float32)A[i]".
std::string text_of(const Expr& e) {
  static const std::regex typed(R"(\((u?int|b?float)\d+\)(?=[A-Za-z_]))");
  std::string text = std::regex_replace(concat(e), typed, "");
  // Parentheses around all of it say nothing.
  int depth = 0;
  size_t end = 0;
  for (; end < text.size(); ++end) {
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    if (depth == 0) break;
  }
  return text.front() == '(' && end + 1 == text.size() ? text.substr(1, end - 1) : text;
}

const char* place_of(Memory memory) {
  switch (memory) {
    case Memory::Registers: return " in registers";
    case Memory::Stack: return " on the stack";
    case Memory::Heap: return " on the heap";
    case Memory::Shared: return " in shared memory";
  }
  throw InternalError(__FILE__, __LINE__, "a buffer without a place");
}

const char* operator_of(ir::Reduction reduction) {
  return reduction == ir::Reduction::None ? "=" : ir::spelling(reduction);
}

std::string text_of(const ir::Scan& scan) {
  std::string text = concat(" scans ", ir::spelling(scan.reduction), " from ",
                            text_of(scan.neighbour), " where ", text_of(scan.position), " > 0");
  if (scan.goes_on.defined()) text += concat(" and ", text_of(scan.goes_on));
  return scan.scale.defined()
             ? concat(text, scan.adds ? ", plus " : ", times ", text_of(scan.scale))
             : text;
}

/// The node's own line, without its end.
std::string line_of(const Nest& nest) {
  if (const auto* n = as<Loop>(nest))
    return concat(name_of(n->role), n->point ? concat(" point ", *n->point) : std::string(), " ",
                  n->name, " in ", text_of(n->min), ":",
                  text_of(Halide::Internal::simplify(n->min + n->extent)));
  if (const auto* n = as<Guard>(nest))
    return concat(n->likely ? "if, as a rule, " : "if ", text_of(n->condition));
  if (const auto* n = as<Binding>(nest)) return concat("let ", n->name, " = ", text_of(n->value));
  if (const auto* n = as<Buffer>(nest))
    return concat("buffer ", n->name, "[", n->elements, "] of ", n->type, place_of(n->memory));
  if (const auto* n = as<Tile>(nest)) {
    std::string text = "register tile";
    for (size_t d = n->dimensions.size(); d-- > 0;) {
      text += concat(d + 1 == n->dimensions.size() ? " " : " x ", n->dimensions[d].full);
      if (n->dimensions[d].rest == TileDimension::kAnyRest) text += " (any rest)";
      if (n->dimensions[d].rest > 0) text += concat(" (rest ", n->dimensions[d].rest, ")");
    }
    return text;
  }
  if (const auto* n = as<Intrinsic>(nest)) return concat("intrinsic ", n->instruction);
  if (as<Copy>(nest)) return "copy";
  if (const auto* n = as<Compute>(nest))
    return concat(n->buffer, "[", text_of(n->index), "] ", operator_of(n->reduction), " ",
                  text_of(n->value), n->atomic ? " (atomic)" : "",
                  n->over_threads ? " (over threads)" : "", n->contracts ? " (contracted)" : "",
                  n->streams ? " (past the caches)" : "",
                  n->scan ? text_of(*n->scan) : std::string());
  if (const auto* n = as<Prefetch>(nest))
    return concat("prefetch ", n->buffer, "[", text_of(n->index), "] to cache ", n->cache);
  if (as<Barrier>(nest)) return "barrier";
  if (const auto* n = as<Lowered>(nest)) return concat("lowered\n", ir::to_string(n->stmt));
  return "";
}

void print(const Nest& nest, const std::string& indent, std::string& text) {
  if (const auto* sequence = as<Sequence>(nest)) {
    for (const Nest& part : sequence->parts) print(part, indent, text);
    return;
  }
  text += concat(indent, line_of(nest), "\n");
  const std::string inner = indent + "  ";
  if (const auto* guard = as<Guard>(nest)) {
    print(guard->then, inner, text);
    if (!guard->otherwise) return;
    text += indent + "else\n";
    print(guard->otherwise, inner, text);
    return;
  }
  for_each_child(nest, [&](const Nest& child) { print(child, inner, text); });
}

}  // namespace

std::string to_string(const Nest& nest) {
  std::string text;
  print(nest, "", text);
  return text;
}

}  // namespace tc::nest
