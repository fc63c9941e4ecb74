// Prefetches that loops make for what they, or those behind them, read later.
#pragma once

#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

/// Where every step of an innermost serial loop reads vectors of another row, so far from the last
/// one that no processor expects it there, the step prefetches the row that is read some steps
/// later. If the loop reads the same rows for several blocks of results, and the next iteration of
/// a loop around these reads another part of one of the `large` buffers, the steps of all blocks
/// together prefetch that part as well, some lines at a time: it comes from the last cache, or from
/// memory, while this part is worked on. Copies are left alone. Runs on expanded register tiles,
/// before vectors are made.
nest::Nest prefetch_panels(const nest::Nest& nest, const std::set<std::string>& large,
                           const CpuMachine& machine);

/// Where register tiles work on a part of one of the buffers, or on a copy of it, and the next part
/// lies behind it, or elsewhere if it is a page long, they prefetch that meanwhile, as in a batch
/// of small products: a processor expects the rest of a page, but too late for parts of a few lines
/// or pages. So do loops that make a slice of a temporary out of such a part, an image padded for
/// the depthwise convolution behind it, and other loops where the next part lies elsewhere, as for
/// a sum over all images of a channel. Parts that fill much of the second cache are left to it. The
/// same where a part lies in short runs far apart, as rows of an image's channels do, of which the
/// next one reads what is behind: no processor expects runs on other pages. Those may be larger,
/// and what the kernel itself wrote. Runs on expanded register tiles, before vectors are made,
/// after prefetch_panels, whose buffers are left alone.
nest::Nest prefetch_parts(const nest::Nest& nest, const std::set<std::string>& buffers,
                          const CpuMachine& machine);

/// Where a loop over rows holds several loops, and the first reads the row from one of `buffers`,
/// the second prefetches the next row meanwhile: it finds its own row in the cache, as in a
/// softmax, and memory would wait for it. Processors expect the rest of a page, but not the next
/// one. To be called between cut_vector_loops and Halide's vectoriser.
nest::Nest prefetch_passes(const nest::Nest& nest, const std::set<std::string>& buffers,
                           const CpuMachine& machine);

/// In innermost loops, prefetches what later iterations read of the given buffers where the address
/// depends on data that the loop reads (rows of a lookup table): the processor cannot guess such
/// addresses, and only starts as many reads by itself as fit between two that it waits for. The
/// last iterations prefetch what comes behind the loop: the next such loop of the same statements,
/// or the first one in the next iteration of the serial loop around them. Only data that the kernel
/// reads anyway says where. Runs after cut_vector_loops.
nest::Nest prefetch_gathers(const nest::Nest& nest, const std::set<std::string>& buffers,
                            const CpuMachine& machine);

/// Where a vector loop picks elements out of a row of one of the buffers, X[y * n + t[x]], and the
/// loop around it goes from row to row, every iteration prefetches a piece of the next row, so that
/// the row is there when it begins: the processor follows steps, which an order from a table has
/// not, and the vectors of one or two lines each leave it little to wait for at the same time. Rows
/// of which the loop picks but a few elements are left alone. Runs after cut_vector_loops.
nest::Nest prefetch_rows(const nest::Nest& nest, const std::set<std::string>& buffers);

}  // namespace tc::codegen
