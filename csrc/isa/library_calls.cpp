#include "isa/library_calls.h"

#include <algorithm>
#include <optional>

#include "base/text_stream.h"
#include "ir/accesses.h"
#include "ir/loops.h"
#include "isa/padding.h"

namespace tc::ir {
namespace {

/// One index of the statement and how it moves through the operands.
struct Index {
  const Iterator* iterator = nullptr;
  int64_t extent = 1;
  int64_t a = 0, b = 0, result = 0;  ///< strides in elements
};

/// A statement that adds up products of two reads.
struct SumOfProducts {
  const Statement* statement = nullptr;
  MemoryAccess a, b, result;
  std::vector<Index> indices;  ///< those with more than one iteration
  double operations = 2;
};

/// The elements from a tensor's first to the one that all indices at their lower bounds touch.
std::optional<int64_t> first_element(const MemoryAccess& access, const Layout& layout,
                                     const Statement& statement) {
  int64_t offset = 0;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    Expr first = access.subscripts[d];
    for (const Iterator& it : statement.domain)
      first = Halide::Internal::substitute(it.name, it.min, first);
    auto value = as_const_int(Halide::Internal::simplify(first));
    if (!value) return std::nullopt;
    offset += *value * layout.strides[d];
  }
  return offset;
}

std::optional<SumOfProducts> as_sum_of_products(const Program& program, const Statement& statement,
                                                const Layouts& layouts) {
  Type type = program.tensor(statement.tensor).type;
  if (statement.reduction != Reduction::Sum || is_scatter(statement) || statement.guard.defined() ||
      !type.is_float())
    return std::nullopt;
  const auto* product = statement.value.as<Mul>();
  const Call* factors[2] = {product ? product->a.as<Call>() : nullptr,
                            product ? product->b.as<Call>() : nullptr};
  MemoryAccess reads[2];
  for (int f = 0; f < 2; ++f) {
    std::string name = factors[f] ? read_name(factors[f]) : "";
    if (!program.tensors.count(name) || name == statement.tensor ||
        program.tensor(name).type != type)
      return std::nullopt;
    reads[f] = {name, factors[f]->args, false, false};
  }
  SumOfProducts sum{
      &statement, reads[0], reads[1], {statement.tensor, statement.subscripts, true, false}, {}, 2};
  for (const Iterator& it : statement.domain) {
    int64_t extent = extent_of(it);
    if (extent == 0) return std::nullopt;
    sum.operations *= static_cast<double>(extent);
    auto stride = [&](const MemoryAccess& access) {
      return stride_along(access, layouts.at(access.tensor), it.name);
    };
    auto a = stride(sum.a), b = stride(sum.b), result = stride(sum.result);
    if (!a || !b || !result) return std::nullopt;
    if (extent > 1) sum.indices.push_back({&it, extent, *a, *b, *result});
  }
  return sum;
}

/// Indices that one dimension of a matrix stands for.
using Group = std::vector<Index>;

/// Outermost first, then merged where every operand walks two of them as one.
void merge(Group& group) {
  std::sort(group.begin(), group.end(), [](const Index& x, const Index& y) {
    return std::make_pair(x.a, x.b) > std::make_pair(y.a, y.b);
  });
  for (size_t i = group.size(); i-- > 1;) {
    Index &outer = group[i - 1], inner = group[i];
    if (outer.a != inner.extent * inner.a || outer.b != inner.extent * inner.b ||
        outer.result != inner.extent * inner.result)
      continue;
    inner.extent *= outer.extent;
    outer = inner;
    group.erase(group.begin() + static_cast<long>(i));
  }
}

/// The only one left.
Index whole(const Group& group) { return group.empty() ? Index() : group[0]; }

/// Whether two indices share a dimension of the access, as a window and its position do.
bool has_window(const MemoryAccess& access, const std::vector<Index>& indices) {
  return std::any_of(
      access.subscripts.begin(), access.subscripts.end(), [&](const Expr& subscript) {
        return std::count_if(indices.begin(), indices.end(), [&](const Index& index) {
                 return Halide::Internal::expr_uses_var(subscript, index.iterator->name);
               }) > 1;
      });
}

std::optional<LibraryCall> match_product(const SumOfProducts& sum, const Layouts& layouts) {
  if (has_window(sum.a, sum.indices) || has_window(sum.b, sum.indices)) return std::nullopt;
  Group batch, m, n, k;
  for (const Index& index : sum.indices) {
    if (index.a < 0 || index.b < 0 || index.result < 0) return std::nullopt;
    if (index.iterator->reduction) {
      if (index.a == 0 || index.b == 0) return std::nullopt;
      k.push_back(index);
    } else {
      if (index.result == 0 || (index.a == 0 && index.b == 0)) return std::nullopt;
      (index.b == 0 ? m : index.a == 0 ? n : batch).push_back(index);
    }
  }
  for (Group* group : {&m, &n, &k}) merge(*group);
  if (k.size() != 1) return std::nullopt;
  // What does not merge is repeated for the other operand, as a batch.
  for (Group* group : {&m, &n})
    while (group->size() > 1) {
      batch.push_back(group->front());
      group->erase(group->begin());
    }
  merge(batch);
  if (batch.size() > 1) return std::nullopt;

  Index of_batch = whole(batch), of_m = whole(m), of_n = whole(n), of_k = whole(k);
  auto operand = [&](const MemoryAccess& access, const Index& row, const Index& column,
                     int64_t Index::*stride) -> std::optional<LibraryOperand> {
    auto offset = first_element(access, layouts.at(access.tensor), *sum.statement);
    if (!offset) return std::nullopt;
    return LibraryOperand{access.tensor,
                          *offset,
                          {of_batch.extent, row.extent, column.extent},
                          {of_batch.*stride, row.*stride, column.*stride}};
  };
  auto a = operand(sum.a, of_m, of_k, &Index::a), b = operand(sum.b, of_k, of_n, &Index::b),
       result = operand(sum.result, of_m, of_n, &Index::result);
  if (!a || !b || !result) return std::nullopt;
  LibraryCall call;
  call.kind = LibraryCall::Kind::Product;
  call.a = *a;
  call.b = *b;
  call.result = *result;
  call.accumulates = !sum.statement->initializes;
  return call;
}

// A library's convolutions have up to three dimensions beside batch and channels.
constexpr size_t kMostDimensions = 3;

/// One dimension of the image along which a filter moves.
struct Window {
  Index place, tap;  ///< of the result; of the filter
  int64_t stride = 1, dilation = 1;
  bool reversed = false;  ///< the filter is read from its end
  size_t dimension = 0;   ///< of the image's tensor
};

/// The indices of a convolution by what they mean.
struct ConvolutionIndices {
  Index batch, channel, filter, group;
  std::vector<Window> windows;
};

/// Sorts the indices, `a` being the image, which lies in memory as `layout` says; nothing where
/// they are no convolution's.
std::optional<ConvolutionIndices> sort_indices(const SumOfProducts& sum, const Layout& layout) {
  ConvolutionIndices found;
  std::vector<bool> used(sum.indices.size());
  auto step = [&](size_t d, const Index& index) {
    return step_along(sum.a.subscripts[d], index.iterator->name).value_or(0);
  };
  for (size_t d = 0; d < sum.a.subscripts.size(); ++d) {
    std::vector<size_t> movers;
    for (size_t i = 0; i < sum.indices.size(); ++i)
      if (step(d, sum.indices[i]) != 0) movers.push_back(i);
    if (movers.size() < 2) continue;
    if (movers.size() > 2 || used[movers[0]] || used[movers[1]]) return std::nullopt;
    size_t place = movers[0], tap = movers[1];
    if (sum.indices[place].iterator->reduction) std::swap(place, tap);
    Window window{sum.indices[place],        sum.indices[tap],       step(d, sum.indices[place]),
                  step(d, sum.indices[tap]), sum.indices[tap].b < 0, d};
    if (window.place.iterator->reduction || !window.tap.iterator->reduction ||
        window.place.b != 0 || window.place.result <= 0 || window.tap.b == 0 || window.stride < 1 ||
        window.dilation < 1 || window.place.a != window.stride * layout.strides[d] ||
        window.tap.a != window.dilation * layout.strides[d])
      return std::nullopt;  // one that walks through another dimension too, among others
    used[place] = used[tap] = true;
    found.windows.push_back(window);
  }
  if (found.windows.empty() || found.windows.size() > kMostDimensions) return std::nullopt;
  for (size_t i = 0; i < sum.indices.size(); ++i) {
    if (used[i]) continue;
    const Index& index = sum.indices[i];
    if (index.a < 0 || index.b < 0 || index.result < 0) return std::nullopt;
    bool in_a = index.a != 0, in_b = index.b != 0, in_result = index.result != 0;
    Index* role = in_a && in_b        ? in_result ? &found.group : &found.channel
                  : in_a && in_result ? &found.batch
                  : in_b && in_result ? &found.filter
                                      : nullptr;
    if (!role || role->iterator) return std::nullopt;
    *role = index;
  }
  return found;
}

/// `group` and `inner` as one dimension of channels; nothing where memory does not lie so.
bool join_groups(const Index& group, const Index& inner, int64_t Index::*stride,
                 LibraryOperand& operand) {
  if (group.extent > 1 && inner.extent > 1 && group.*stride != inner.extent * inner.*stride)
    return false;
  operand.sizes.push_back(group.extent * inner.extent);
  operand.strides.push_back(inner.extent > 1 ? inner.*stride : group.*stride);
  return true;
}

/// The image as it lies before zeros were put around it, when the statement in front did that and
/// nobody else looks at what it made.
std::optional<Padding> find_padding(const Program& program, size_t at, const std::string& image) {
  if (at == 0 || program.tensor(image).role != TensorRole::Temporary ||
      program.statements[at - 1].tensor != image)
    return std::nullopt;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    if (s != at - 1 && statement.tensor == image) return std::nullopt;
    for (const MemoryAccess& access : accesses(program, statement))
      if (s != at && !access.write && access.tensor == image) return std::nullopt;
  }
  return match_padding(program, program.statements[at - 1]);
}

/// Whether a convolution of these sizes has `out` results along a dimension.
bool produces(int64_t size, int64_t padding, int64_t stride, int64_t dilation, int64_t kernel,
              int64_t out) {
  int64_t rest = size + 2 * padding - dilation * (kernel - 1) - 1;
  return rest >= 0 && rest / stride + 1 == out;
}

/// The call for a sum whose factor `a` is the image. `layout` is the image's; `padding` is what
/// lies around it in the text, or null.
std::optional<LibraryCall> build_convolution(const SumOfProducts& sum, const Layout& layout,
                                             const Padding* padding, const Layouts& layouts) {
  const std::optional<ConvolutionIndices> sorted = sort_indices(sum, layout);
  if (!sorted) return std::nullopt;
  const ConvolutionIndices& indices = *sorted;
  const size_t rank = indices.windows.size();
  LibraryCall call;
  call.kind = LibraryCall::Kind::Convolution;
  tc_convolution& convolution = call.convolution;
  convolution.dimensions = static_cast<int32_t>(rank);
  convolution.groups = indices.group.extent;

  // In the roles of a plain convolution.
  LibraryOperand image, filters, result;
  auto begin = [&](LibraryOperand& operand, const MemoryAccess& access, const Layout& memory) {
    auto offset = first_element(access, memory, *sum.statement);
    operand.tensor = access.tensor;
    operand.offset = offset.value_or(0);
    return offset.has_value();
  };
  if (!begin(image, sum.a, layout) || !begin(filters, sum.b, layouts.at(sum.b.tensor)) ||
      !begin(result, sum.result, layouts.at(sum.result.tensor)))
    return std::nullopt;
  image.sizes = {indices.batch.extent};
  image.strides = {indices.batch.a};
  result.sizes = {indices.batch.extent};
  result.strides = {indices.batch.result};
  if (!join_groups(indices.group, indices.channel, &Index::a, image) ||
      !join_groups(indices.group, indices.filter, &Index::b, filters) ||
      !join_groups(indices.group, indices.filter, &Index::result, result))
    return std::nullopt;
  filters.sizes.push_back(indices.channel.extent);
  filters.strides.push_back(indices.channel.b);
  if (padding) {
    // Where the elements of a dimension lie in one place, the offset tells nothing of it.
    Layout apart = layout;
    std::fill(apart.strides.begin(), apart.strides.end(), 1);
    if (first_element(sum.a, apart, *sum.statement) != 0) return std::nullopt;
    image.tensor = padding->tensor;
    for (size_t d = 0; d < padding->dimensions.size(); ++d) {
      const Padding::Dimension& padded = padding->dimensions[d];
      bool slides = std::any_of(indices.windows.begin(), indices.windows.end(),
                                [&](const Window& w) { return w.dimension == d; });
      if (!slides && (padded.before > 0 || padded.extent > padded.size)) return std::nullopt;
    }
  }

  size_t reversed = 0, larger = 0;
  for (size_t w = 0; w < rank; ++w) {
    const Window& window = indices.windows[w];
    int64_t size =
        (window.place.extent - 1) * window.stride + (window.tap.extent - 1) * window.dilation + 1;
    if (padding) {
      const Padding::Dimension& padded = padding->dimensions[window.dimension];
      // A library puts as many zeros behind as in front.
      if (size - padded.size - padded.before > padded.before) return std::nullopt;
      convolution.padding[w] = padded.before;
      size = padded.size;
    }
    convolution.stride[w] = window.stride;
    convolution.dilation[w] = window.dilation;
    image.sizes.push_back(size);
    image.strides.push_back(layout.strides[window.dimension]);
    filters.sizes.push_back(window.tap.extent);
    filters.strides.push_back(std::abs(window.tap.b));
    result.sizes.push_back(window.place.extent);
    result.strides.push_back(window.place.result);
    if (window.reversed) filters.offset += (window.tap.extent - 1) * window.tap.b;
    reversed += window.reversed;
    larger += window.tap.extent > window.place.extent;
  }

  if (reversed > 0) {
    // A window that reads its filter backwards is the gradient of one that does not.
    if (reversed != rank || convolution.groups > 1) return std::nullopt;
    convolution.kind = TC_CONVOLUTION_IMAGE_GRADIENT;
    std::swap(filters.sizes[0], filters.sizes[1]);
    std::swap(filters.strides[0], filters.strides[1]);
  } else if (larger == rank) {
    // A filter larger than the result is a gradient of results, and the result one of filters.
    if (convolution.groups > 1) return std::nullopt;
    convolution.kind = TC_CONVOLUTION_FILTER_GRADIENT;
    for (LibraryOperand* operand : {&image, &filters, &result}) {
      std::swap(operand->sizes[0], operand->sizes[1]);
      std::swap(operand->strides[0], operand->strides[1]);
    }
  }
  for (size_t w = 0; w < rank; ++w) {
    int64_t &stride = convolution.stride[w], &dilation = convolution.dilation[w];
    int64_t& around = convolution.padding[w];
    int64_t size = image.sizes[w + 2], taps = indices.windows[w].tap.extent,
            places = indices.windows[w].place.extent;
    if (convolution.kind == TC_CONVOLUTION_FILTER_GRADIENT) {
      std::swap(stride, dilation);
      std::swap(taps, places);
    }
    if (!produces(size, around, stride, dilation, taps, places)) return std::nullopt;
    if (convolution.kind == TC_CONVOLUTION_IMAGE_GRADIENT) {
      int64_t whole = (taps - 1) * dilation;
      if (stride != 1 || around > whole) return std::nullopt;
      around = whole - around;
    }
  }
  call.a = image;
  call.b = filters;
  call.result = result;
  return call;
}

std::optional<LibraryCall> match_convolution(const Program& program, size_t at,
                                             const SumOfProducts& sum, const Layouts& layouts) {
  if (!sum.statement->initializes) return std::nullopt;
  // Either factor may be the image.
  SumOfProducts swapped = sum;
  std::swap(swapped.a, swapped.b);
  for (Index& index : swapped.indices) std::swap(index.a, index.b);
  for (const SumOfProducts& form : {sum, swapped}) {
    auto padding = find_padding(program, at, form.a.tensor);
    if (padding) {
      // The same walk through the memory of the tensor itself.
      SumOfProducts inner = form;
      const Layout& layout = layouts.at(padding->tensor);
      for (Index& index : inner.indices)
        index.a = *stride_along(inner.a, layout, index.iterator->name);
      if (auto call = build_convolution(inner, layout, &*padding, layouts)) {
        call->first = at - 1;
        return call;
      }
    }
    if (auto call = build_convolution(form, layouts.at(form.a.tensor), nullptr, layouts)) {
      call->first = at;
      return call;
    }
  }
  return std::nullopt;
}

std::string join(const std::vector<int64_t>& sizes, size_t from = 0) {
  TextStream text;
  for (size_t d = from; d < sizes.size(); ++d) text << (d > from ? "x" : "") << sizes[d];
  return text.str();
}

/// ", stride 2" or ", stride 2x1"; nothing where all are `usual`.
std::string describe(const char* name, const int64_t* values, int32_t count, int64_t usual) {
  std::vector<int64_t> all(values, values + count);
  if (std::all_of(all.begin(), all.end(), [&](int64_t v) { return v == usual; })) return "";
  bool same = std::all_of(all.begin(), all.end(), [&](int64_t v) { return v == all[0]; });
  return std::string(", ") + name + " " + (same ? std::to_string(all[0]) : join(all));
}

}  // namespace

std::vector<LibraryCall> match_library_calls(const Program& program, const Layouts& layouts) {
  std::vector<LibraryCall> calls;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    auto sum = as_sum_of_products(program, program.statements[s], layouts);
    if (!sum) continue;
    auto call = match_product(*sum, layouts);
    if (call) call->first = s;
    if (!call) call = match_convolution(program, s, *sum, layouts);
    if (!call) continue;
    call->last = s;
    call->type = program.tensor(sum->statement->tensor).type;
    call->operations = sum->operations;
    calls.push_back(*call);
  }
  return calls;
}

std::string to_string(const LibraryCall& call) {
  TextStream text;
  if (call.kind == LibraryCall::Kind::Product) {
    int64_t batch = call.result.sizes[0];
    text << (batch > 1 ? "products of " + std::to_string(batch) + " pairs of matrices "
                       : "product of matrices ")
         << join(call.a.sizes, 1) << " and " << join(call.b.sizes, 1);
    return text.str();
  }
  const tc_convolution& convolution = call.convolution;
  switch (convolution.kind) {
    case TC_CONVOLUTION_IMAGE_GRADIENT:
      text << "gradient of an image, from " << join(call.a.sizes) << " and filters "
           << join(call.b.sizes);
      break;
    case TC_CONVOLUTION_FILTER_GRADIENT:
      text << "gradient of filters, from " << join(call.b.sizes) << " and an image "
           << join(call.a.sizes);
      break;
    default: text << "convolution of " << join(call.a.sizes) << " with " << join(call.b.sizes);
  }
  text << describe("stride", convolution.stride, convolution.dimensions, 1)
       << describe("padding", convolution.padding, convolution.dimensions, 0)
       << describe("dilation", convolution.dilation, convolution.dimensions, 1);
  if (convolution.groups > 1) text << ", " << convolution.groups << " groups";
  return text.str();
}

}  // namespace tc::ir
