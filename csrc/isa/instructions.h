// Instructions that do many operations of the language at once, described as data: what they
// compute is a text of the language itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tc::isa {

/// An instruction that adds to every element of its result a sum of terms (Weng et al., UNIT:
/// Unifying Tensorized Instruction Compilation).
struct Instruction {
  std::string name;
  /// A definition with one statement. Its inputs are the operands; a size that is a name is the
  /// number of lanes. Operands and result lie in registers row by row.
  std::string text;
  /// The result after the instruction, by what it was before and the operands, all of them vectors.
  /// Of two that may change places, one that is the same for all lanes comes first.
  /// Where the processor does not have it, Halide makes other instructions of the same value.
  ir::Expr (*make)(const ir::Expr& result, const std::vector<ir::Expr>& operands);
  /// Of those that a processor with dot products has for it.
  double instructions = 1;

  // ---- what the text says
  ir::Statement statement = {};            ///< for some number of lanes
  std::vector<std::string> operands = {};  ///< in order of the signature
  int64_t terms = 1;                       ///< of a sum
};

/// All of them.
const std::vector<Instruction>& instructions();
/// Null: there is none of that name.
const Instruction* find_instruction(const std::string& name);
/// "vpdpbusd, vpdpwssd".
std::string known_instructions();

/// Arithmetic isomorphism: whether a value is the instruction's, tree by tree and type by type, up
/// to the order of summands and factors. The reads (or, in a nest, loads) in the place of its
/// operands.
std::optional<std::vector<ir::Expr>> match_value(const Instruction& instruction,
                                                 const ir::Expr& value);

/// The first instruction that computes what a statement adds up.
const Instruction* match(const ir::Statement& statement);

/// Memory isomorphism: whether a register of an operand holds what neighbouring lanes and terms
/// read, when these lie so many elements apart in memory; 0 where all read the same.
bool fits_register(const Instruction& instruction, int64_t along_lanes, int64_t along_terms);

// ---- families, each in a file of its own, without what their texts say

std::vector<Instruction> dot_products();

}  // namespace tc::isa
