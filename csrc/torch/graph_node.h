// Nodes of PyTorch's graph of derivatives, for every PyTorch that the sources compile with.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace tc_torch {

/// A new node, held as this PyTorch's edges hold theirs: those of 2.11 by std::shared_ptr, whose
/// deleter keeps the end of a long graph from recursing.
template <typename Node, typename... Arguments>
auto make_node(Arguments&&... arguments) {
  using Held = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Held, std::shared_ptr<torch::autograd::Node>>)
    return std::shared_ptr<Node>(new Node(std::forward<Arguments>(arguments)...),
                                 [](auto* node) { deleteNode(node); });  // torch::autograd's
  else
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}

}  // namespace tc_torch
