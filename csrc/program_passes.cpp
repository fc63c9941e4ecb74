#include "program_passes.h"

#include "base/error.h"
#include "base/passes.h"
#include "ir/compare.h"
#include "ir/expressions/simplify.h"
#include "ir/expressions/wide_integers.h"
#include "rewrite/algebra/multiply_by_reciprocals.h"
#include "rewrite/algebra/nest_sums.h"
#include "rewrite/algebra/share_scatters.h"
#include "rewrite/algebra/share_sums.h"
#include "rewrite/algebra/share_values.h"
#include "rewrite/algebra/split_reductions.h"
#include "rewrite/algebra/split_sums.h"
#include "rewrite/algebra/take_out_conditions.h"
#include "rewrite/canonical/bring_together.h"
#include "rewrite/canonical/collapse_dimensions.h"
#include "rewrite/canonical/expand_positions.h"
#include "rewrite/canonical/forward_copies.h"
#include "rewrite/canonical/inline_temporaries.h"
#include "rewrite/canonical/lower_scatters.h"
#include "rewrite/canonical/order_reductions.h"
#include "rewrite/canonical/round_once.h"
#include "rewrite/canonical/start_at_zero.h"
#include "rewrite/canonical/widen_accumulators.h"
#include "rewrite/domains/free_reads.h"
#include "rewrite/domains/reverse_indices.h"
#include "rewrite/domains/shrink_ranges.h"
#include "rewrite/domains/split_ranges.h"
#include "rewrite/domains/split_residues.h"
#include "rewrite/domains/unroll_choices.h"
#include "rewrite/operands/compute_operands.h"
#include "rewrite/operands/gather_operands.h"
#include "rewrite/operands/offset_tables.h"
#include "rewrite/operands/split_columns.h"
#include "rewrite/operands/transpose_tables.h"
#include "rewrite/scans/find_scans.h"
#include "rewrite/scans/pair_sums.h"
#include "runtime/libraries.h"

namespace tc {
namespace {

void decide_conditions(ir::Program& program) {
  for (ir::Statement& statement : program.statements)
    statement.value = ir::decide_repeated_conditions(statement.value);
}

/// Before code is to be generated for it (see ir/expressions/wrap_integers).
void refuse_overflows(const ir::Program& program) {
  for (const ir::Statement& statement : program.statements) {
    bool found = ir::overflows(statement.value) || ir::overflows(statement.guard);
    for (const ir::Expr& subscript : statement.subscripts)
      found = found || ir::overflows(subscript);
    if (found)
      throw CompilationError(program.name, ": 32 bits do not hold a number of ",
                             ir::assignment_text(statement),
                             "; use smaller constants, ranges or sizes");
  }
}

/// What passes over a program know beside it.
struct ProgramContext {
  const Layouts& given;  ///< of arguments
  const MappingOptions& options;
  const bool cuda;
  const CpuMachine& machine;
  const bool free = !options.identity;  ///< the options do not keep the loops of the text
  /// Tile sizes by position speak of the dimensions of the text.
  const bool keeps_dimensions = !free || !options.tile.empty();
};

bool is_free(const ProgramContext& c) { return c.free; }
bool changes_dimensions(const ProgramContext& c) { return !c.keeps_dimensions; }
bool is_on_cpu(const ProgramContext& c) { return c.free && !c.cuda; }
bool makes_parts_on_gpu(const ProgramContext& c) { return changes_dimensions(c) && c.cuda; }
bool makes_vectors(const ProgramContext& c) { return is_on_cpu(c) && c.options.vectorize; }
bool shares_scatters(const ProgramContext& c) { return is_on_cpu(c) && c.options.parallel; }
bool makes_parts(const ProgramContext& c) { return changes_dimensions(c) && shares_scatters(c); }
bool makes_owners(const ProgramContext& c) { return c.free && c.cuda && runtime::deterministic(); }

/// Temporaries that came are row-major, and of those that went nothing stays.
void lay_out_temporaries(Simplified& s, ProgramContext& c) {
  s.layouts = with_temporaries(s.program, c.given);
}

bool same(const Simplified& a, const Simplified& b) {
  return a.layouts == b.layouts && ir::same(a.program, b.program);
}

std::string text(const Simplified& simplified) { return ir::to_string(simplified.program); }

using P = Simplified;
using C = ProgramContext;

const PassList<P, C> kProgramPasses(
    "program", same, text,
    {
        {"expand_positions", "first: later passes know reductions over values alone",
         [](P& p, C&) { ir::expand_positions(p.program); }},
        {"lower_scatters",
         "every left-hand side is plain, or a scatter that starts from what was there",
         [](P& p, C& c) { ir::lower_scatters(p.program, c.cuda && !runtime::deterministic()); }},
        {"shrink_ranges", "in front of start_at_zero: ranges that are left may begin anywhere",
         [](P& p, C&) { rewrite::shrink_ranges(p.program); }, is_free},
        {"start_at_zero", "later passes, and tiles, count from 0",
         [](P& p, C&) { ir::start_at_zero(p.program); }},
        {"unroll_choices", "in front of inline_temporaries, for which it leaves values",
         [](P& p, C&) { rewrite::unroll_choices(p.program); }, is_free},
        {"decide_conditions", "in front of those that look at what conditions leave",
         [](P& p, C&) { decide_conditions(p.program); }},
        {"forward_copies", "in front of those that look for what several statements read",
         [](P& p, C&) { ir::forward_copies(p.program); }, is_free},
        {"widen_accumulators", "behind forward_copies, which would copy the wide ones",
         [](P& p, C&) { ir::widen_accumulators(p.program); }},
        {"round_once", "in front of those that count operations and move them",
         [](P& p, C&) { ir::round_once(p.program); }, is_free},
        {"split_residues",
         "in front of the passes over sums, which see products without conditions then",
         [](P& p, C&) { rewrite::split_residues(p.program); }, is_free},
        {"lay_out_sums",
         "share_sums and nest_sums look at strides, while products are those of the text",
         lay_out_temporaries, is_free},
        {"take_out_conditions", "in front of those that look for plain sums of products",
         [](P& p, C& c) { ir::take_out_conditions(p.program, p.layouts, c.machine); }, is_free},
        {"multiply_by_reciprocals", "in front of those that count divisions",
         [](P& p, C&) { ir::multiply_by_reciprocals(p.program); }, is_free},
        {"split_sums", "in front of share_sums and nest_sums, which know sums of one product",
         [](P& p, C& c) { ir::split_sums(p.program, p.layouts, c.machine); }, is_free},
        {"share_sums", "needs layouts, and sums as the text has them",
         [](P& p, C& c) { ir::share_sums(p.program, p.layouts, c.machine); }, is_free},
        {"sum_pairs", "in front of nest_sums, which would take conditional sums apart",
         [](P& p, C& c) { ir::sum_pairs(p.program, p.layouts, c.machine); }, is_free},
        {"nest_sums", "behind share_sums: what is shared is summed once, whatever the order",
         [](P& p, C& c) { ir::nest_sums(p.program, p.layouts, c.machine); }, is_free},
        {"bring_together",
         "behind those that make new sums; in front of inline_temporaries, which sees "
         "neighbours",
         [](P& p, C& c) { ir::bring_together(p.program, c.machine); }, is_free},
        {"inline_temporaries", "behind the passes that make temporaries for a statement each",
         [](P& p, C&) { ir::inline_temporaries(p.program); }, is_free},
        {"find_scans", "needs values without names for parts of them",
         [](P& p, C&) { ir::find_scans(p.program); }, is_free},
        {"lay_out_temporaries", "all that follow look at strides", lay_out_temporaries},
        {"share_values", "behind find_scans, which needs sums of exponentials as the text has them",
         [](P& p, C& c) { ir::share_values(p.program, p.layouts, c.machine); }, is_free},
        {"split_ranges", "needs layouts; in front of what looks for contiguous reads",
         [](P& p, C&) { rewrite::split_ranges(p.program, p.layouts); }, makes_vectors},
        {"reverse_indices", "behind split_ranges, whose pieces may be read backwards",
         [](P& p, C&) { rewrite::reverse_indices(p.program, p.layouts); }, is_on_cpu},
        {"make_offset_tables", "behind reverse_indices: steps count up",
         [](P& p, C& c) { ir::make_offset_tables(p.program, p.layouts, c.machine); }, is_on_cpu},
        {"gather_operands", "behind make_offset_tables, whose tables it reads through",
         [](P& p, C& c) { ir::gather_operands(p.program, p.layouts, c.machine); }, is_on_cpu},
        {"transpose_tables", "behind gather_operands: what is in order of use is no table any more",
         [](P& p, C& c) { rewrite::transpose_tables(p.program, p.layouts, c.machine); },
         makes_vectors},
        {"compute_operands", "behind gather_operands, which puts in order what this computes",
         [](P& p, C& c) { ir::compute_operands(p.program, p.layouts, c.machine); }, is_on_cpu},
        {"order_reductions", "behind all that change what operands a product has",
         [](P& p, C&) { ir::order_reductions(p.program, p.layouts); }, is_on_cpu},
        {"collapse_dimensions",
         "behind order_reductions: neighbours in memory are neighbours in the text",
         [](P& p, C&) { ir::collapse_dimensions(p.program, p.layouts); }, changes_dimensions},
        {"split_columns", "needs the columns that collapse_dimensions leaves",
         [](P& p, C& c) { ir::split_columns(p.program, p.layouts, c.machine); }, makes_vectors},
        {"split_reductions_for_gpu", "behind collapse_dimensions: a long reduction is one index",
         [](P& p, C& c) { ir::split_reductions_for_gpu(p.program, p.layouts, c.machine); },
         makes_parts_on_gpu},
        {"split_reductions", "behind collapse_dimensions: a long reduction is one index",
         [](P& p, C& c) { ir::split_reductions(p.program, p.layouts, c.machine); }, makes_parts},
        {"share_scatters", "behind those that change domains, from which shares are made",
         [](P& p, C& c) { ir::share_scatters(p.program, p.layouts, c.machine); }, shares_scatters},
        {"give_owners", "behind those that change domains, from which owners are made",
         [](P& p, C&) { ir::give_owners(p.program); }, makes_owners},
        {"free_reads", "last: guards are those that code is made for",
         [](P& p, C&) { rewrite::free_reads(p.program, p.layouts); }, makes_vectors},
    });

}  // namespace

Layouts with_temporaries(const ir::Program& program, Layouts layouts) {
  for (const auto& [name, tensor] : program.tensors)
    if (!layouts.count(name)) layouts[name] = row_major(tensor);
  return layouts;
}

std::vector<std::string> argument_names(const ir::Program& program) {
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : program.parameters) names.push_back(parameter.name);
  names.insert(names.end(), program.outputs.begin(), program.outputs.end());
  return names;
}

Simplified simplify_program(const ir::Program& given, const Layouts& layouts,
                            const MappingOptions& options, bool cuda, const CpuMachine& machine) {
  Simplified simplified{given, layouts};
  ProgramContext context{layouts, options, cuda, machine};
  kProgramPasses.run(simplified, context);
  refuse_overflows(simplified.program);
  return simplified;
}

}  // namespace tc
