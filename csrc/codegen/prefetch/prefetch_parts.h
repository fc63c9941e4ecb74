// Prefetches for operands that a kernel works through in small parts, one behind the other.
#pragma once

#include <set>
#include <string>

#include "machine/cpu.h"
#include "nest/nest.h"

namespace tc::codegen {

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

}  // namespace tc::codegen
