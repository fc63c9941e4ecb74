#include "codegen/rename_buffers.h"

#include <set>

#include "base/error.h"
#include "codegen/names.h"

namespace tc::codegen {

namespace {

Nest rename(const Nest& n, const std::set<std::string>& own) {
  if (const auto* buffer = as<nest::Buffer>(n)) {
    std::set<std::string> inside = own;
    inside.insert(buffer->name);
    return nest::map_children(n, [&](const Nest& body) { return rename(body, inside); });
  }
  TC_INTERNAL_CHECK(!as<nest::Lowered>(n) && !as<nest::Prefetch>(n),
                    "buffers are renamed before parts are lowered");
  const auto renamed = [&](const std::string& name) {
    return own.count(name) ? name : buffer_name(name);
  };
  Nest made = nest::map_own_expressions(n, [&](const Expr& e) {
    return nest::map_loads(e, [&](const Load& load) {
      return Load::make(load.type, renamed(load.name), load.index, load.image, load.param,
                        load.predicate, load.alignment);
    });
  });
  if (const auto* compute = as<Compute>(made)) {
    Compute changed = *compute;
    changed.buffer = renamed(compute->buffer);
    return nest::make(std::move(changed));
  }
  return nest::map_children(made, [&](const Nest& child) { return rename(child, own); });
}

}  // namespace

std::string buffer_name(const std::string& tensor) {
  bool small = !tensor.empty() && tensor[0] >= 'a' && tensor[0] <= 'z';
  return small ? tensor + ".data" : tensor;
}

Nest rename_buffers(const Nest& nest) { return rename(nest, {}); }

}  // namespace tc::codegen
