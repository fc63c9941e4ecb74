// How the work of a definition can be shared between processes that hold parts of its tensors.
#pragma once

#include <vector>

#include "lang/lowering/definition.h"

namespace tc::lang {

/// What a process holds of a tensor: all of it, a part along one dimension, or, of a result, terms
/// whose reduction over all processes is the tensor.
struct Placement {
  int dimension = -1;                           ///< -1 where it is whole
  ir::Reduction partial = ir::Reduction::None;  ///< Sum, Product, Min or Max
};

/// Placements with which every process can run the definition on what it holds, and none needs
/// anything of the others. The sizes along all split dimensions must be equal.
struct Sharding {
  std::vector<Placement> inputs;  ///< of scalars as of whole tensors
  std::vector<Placement> outputs;
};

/// One for each group of dimensions that plain indices walk together in every statement: an index
/// of a result splits the result, one that is reduced over leaves partial results. What is linear
/// in partial sums is a partial sum itself. Nothing else may depend on where such an index stands
/// or on how many there are: it appears in no other subscript or value, its size in no expression
/// (see sizes_as_parameters).
std::vector<Sharding> shardings(const Definition& definition);

}  // namespace tc::lang
