#include "caffe2/library.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <tuple>

#include "caffe2/errors.h"
#include "caffe2/types.h"

namespace tc_caffe2 {
namespace {

using tensor_comprehensions::Module;

std::string replace_word(std::string text, const std::string& word, const std::string& by) {
  auto in_word = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    const bool whole = !(at > 0 && in_word(at - 1)) && !in_word(at + word.size());
    if (whole) text.replace(at, word.size(), by);
    at += whole ? by.size() : word.size();
  }
  return text;
}

/// The definition of a file with its element types replaced, of which every process parses one.
Definition typed_definition(const std::string& file, const std::string& name,
                            const std::string& element, const std::string& index) {
  static std::mutex mutex;
  static auto& parsed =
      *new std::map<std::tuple<std::string, std::string, std::string, std::string>, Definition>;
  std::lock_guard<std::mutex> lock(mutex);
  auto key = std::make_tuple(file, name, element, index);
  auto found = parsed.find(key);
  if (found != parsed.end()) return found->second;
  std::string text = replace_word(ops_text(file), "float", element);
  text = replace_word(std::move(text), "int32", index);
  return parsed.emplace(key, Module(text)[name]).first->second;
}

/// Element types are those of the inputs that the text calls float and int32.
class LibrarySource : public Source {
 public:
  LibrarySource(std::string file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {
    Definition described = definition({});
    for (int32_t i = 0; i < described.input_count(); ++i) {
      uint8_t code = described.input(i).dtype.code;
      if (code == kDLFloat && element_input_ < 0) element_input_ = i;
      if (code == kDLInt && index_input_ < 0) index_input_ = i;
    }
  }

  Definition definition(const std::vector<Given>& inputs) const override {
    auto word = [&](int32_t input, const char* usual) {
      bool known = input >= 0 && static_cast<size_t>(input) < inputs.size();
      return known ? to_word(inputs[static_cast<size_t>(input)].dtype) : usual;
    };
    return typed_definition(file_, name_, word(element_input_, "float"),
                            word(index_input_, "int32"));
  }

 private:
  std::string file_, name_;
  int32_t element_input_ = -1, index_input_ = -1;
};

SourcePtr by_definition(const LibraryOperator& self, const Arguments&) {
  return std::make_shared<LibrarySource>(self.file, self.definition);
}

SourcePtr product(const LibraryOperator& self, const Arguments& arguments) {
  bool a = arguments.integer("trans_a", 0) != 0, b = arguments.integer("trans_b", 0) != 0;
  return std::make_shared<LibrarySource>(self.file, a && b ? "matmul_transposed_both"
                                                    : a    ? "matmul_transposed_a"
                                                    : b    ? "matmul_transposed_b"
                                                           : "matmul");
}

/// A copy of tensors of any rank, which the definition sees as one row.
class CopySource : public LibrarySource {
 public:
  using LibrarySource::LibrarySource;
  Sizes input_view(size_t, const Sizes& sizes) const override { return row(sizes); }
  Sizes output_view(size_t, const Sizes& sizes) const override { return row(sizes); }
  Sizes output_sizes(size_t, const Sizes&, const std::vector<Given>& inputs) const override {
    return inputs.at(0).sizes;
  }

 private:
  static Sizes row(const Sizes& sizes) {
    int64_t count = 1;
    for (int64_t size : sizes) count *= size;
    return {1, count};
  }
};

SourcePtr copy(const LibraryOperator& self, const Arguments&) {
  return std::make_shared<CopySource>(self.file, self.definition);
}

/// A convolution in groups whose tensors have no dimension for them, as those of Caffe2's Conv: the
/// definition sees channels, filters and bias divided.
class GroupedSource : public LibrarySource {
 public:
  GroupedSource(const std::string& file, const std::string& name, int64_t groups)
      : LibrarySource(file, name), groups_(groups) {}
  Sizes input_view(size_t input, const Sizes& sizes) const override {
    return input == 0 ? divided(sizes, 1, "channels of the images")
                      : divided(sizes, 0, input == 1 ? "filters" : "elements of the bias");
  }
  Sizes output_view(size_t, const Sizes& sizes) const override {
    return divided(sizes, 1, "channels of the result");
  }
  Sizes output_sizes(size_t, const Sizes& sizes, const std::vector<Given>&) const override {
    Sizes joined = sizes;
    joined[1] *= joined[2];
    joined.erase(joined.begin() + 2);
    return joined;
  }

 private:
  Sizes divided(const Sizes& sizes, size_t dimension, const char* what) const {
    if (sizes.size() <= dimension) return sizes;  // the definition says what is wrong
    if (sizes[dimension] % groups_ != 0)
      shape_error(sizes[dimension], " ", what, " cannot be divided into group=", groups_);
    Sizes result = sizes;
    result[dimension] /= groups_;
    result.insert(result.begin() + static_cast<int64_t>(dimension), groups_);
    return result;
  }

  int64_t groups_;
};

/// An argument of a convolution that Caffe2 has for both dimensions, or for each side: {"stride",
/// "_h", "_w"}. One for all may not stand beside one for some.
std::vector<int32_t> window_numbers(const Arguments& arguments, const std::string& name,
                                    const std::vector<const char*>& sides, int64_t least) {
  std::vector<int32_t> result;
  const bool both = arguments.has(name);
  for (const char* side : sides) {
    std::string own = name + side;
    if (both && arguments.has(own))
      usage_error("the arguments ", name, " and ", own, " say the same: give one of them");
    int64_t value = arguments.integer(both ? name : own, least);
    if (value < least || value > INT32_MAX)
      usage_error("the argument ", both ? name : own, " is ", value, ", but has to be from ", least,
                  " to ", INT32_MAX);
    result.push_back(static_cast<int32_t>(value));
  }
  return result;
}

/// What Caffe2's Conv has and these operators have not.
void refuse_other_windows(const Arguments& arguments) {
  for (const char* list : {"strides", "pads", "dilations", "kernels"})
    if (arguments.has(list))
      usage_error("the argument ", list,
                  " is a list of any rank; images have two dimensions here: give stride_h, "
                  "stride_w, pad_t, pad_l, pad_b, pad_r, dilation_h and dilation_w");
  if (arguments.has("order") && arguments.text("order") != "NCHW")
    usage_error("the argument order is ", arguments.text("order"),
                ", but images are expected as NCHW");
  if (arguments.integer("legacy_pad", 0) != 0)
    usage_error("the argument legacy_pad is not supported: give pad_t, pad_l, pad_b, pad_r");
}

SourcePtr convolution(const LibraryOperator& self, const Arguments& arguments) {
  refuse_other_windows(arguments);
  const bool in_groups = std::string(self.type) == "TcGroupConvolutionOp";
  const int64_t groups = arguments.integer("group", 1);
  if (!in_groups && groups != 1)
    usage_error("the argument group is ", groups, ": TcGroupConvolutionOp has groups");
  if (groups < 1) usage_error("the argument group is ", groups, ", but has to be at least 1");
  std::shared_ptr<LibrarySource> source;
  if (arguments.has("group") && in_groups)
    source = std::make_shared<GroupedSource>(self.file, self.definition, groups);
  else
    source = std::make_shared<LibrarySource>(self.file, self.definition);
  for (const auto& [name, sides, least] :
       {std::make_tuple("stride", std::vector<const char*>{"_h", "_w"}, 1),
        std::make_tuple("dilation", std::vector<const char*>{"_h", "_w"}, 1),
        std::make_tuple("pad", std::vector<const char*>{"_t", "_l", "_b", "_r"}, 0)})
    for (int32_t number : window_numbers(arguments, name, sides, least))
      source->numbers.push_back(number);
  return source;
}

const Described kWindow = {
    {"stride", "Pixels between windows, 1 where it is missing; or stride_h and stride_w."},
    {"stride_h", "Rows between windows."},
    {"stride_w", "Columns between windows."},
    {"pad", "Zeros around the images, 0 where it is missing; or pad_t, pad_l, pad_b and pad_r."},
    {"pad_t", "Rows of zeros above the images."},
    {"pad_l", "Columns of zeros on their left."},
    {"pad_b", "Rows of zeros below."},
    {"pad_r", "Columns of zeros on their right."},
    {"dilation", "Pixels from tap to tap, 1 where it is missing; or dilation_h and dilation_w."},
    {"dilation_h", "Rows from tap to tap."},
    {"dilation_w", "Columns from tap to tap."},
    {"order", "NCHW, the only one."},
};

Described with_group(Described arguments) {
  arguments.insert(
      arguments.begin(),
      {"group",
       "The number of groups where tensors have no dimension for them: images of N x C "
       "x H x W, filters of F x C/group x KH x KW, F biases, as Caffe2's Conv has "
       "them. Without it they are N x G x C x H x W, G x F x C x KH x KW and G x F."});
  return arguments;
}

LibraryOperator layers(const char* type, size_t count, const char* definition) {
  static const char* const names[] = {"W1", "B1", "W2", "B2", "W3", "B3", "W4", "B4"};
  static const char* const results[] = {"O1", "O2", "O3", "O4"};
  LibraryOperator result{type,         {{"I", "Rows of values."}}, {}, {}, "mlp", definition,
                         by_definition};
  for (size_t k = 0; k < count; ++k) {
    result.inputs.emplace_back(names[2 * k], "The weight of a layer: its outputs x its inputs.");
    result.inputs.emplace_back(names[2 * k + 1], "The bias of that layer.");
    result.outputs.emplace_back(results[k], "The layer's results.");
  }
  return result;
}

}  // namespace

const std::vector<LibraryOperator>& library_operators() {
  static const std::vector<LibraryOperator> all = {
      {"TcMatMulOp",
       {{"A", "A matrix."}, {"B", "Another."}},
       {{"C", "Their product."}},
       {{"trans_a", "1 where A lies transposed."}, {"trans_b", "1 where B does."}},
       "matmul",
       "matmul",
       product},
      layers("TcFCReluOp", 1, "mlp1"),
      layers("Tc2FCReluOp", 2, "mlp2"),
      layers("Tc3FCReluOp", 3, "mlp3"),
      layers("Tc4FCReluOp", 4, "mlp4"),
      {"TcCopyOp",
       {{"I", "A tensor of any rank."}},
       {{"O", "The same values."}},
       {},
       "copy",
       "copy",
       copy},
      {"TcConvolutionOp",
       {{"I", "Images: N x C x H x W."}, {"W", "Filters: F x C x KH x KW."}, {"B", "F biases."}},
       {{"O", "Images of F channels."}},
       kWindow,
       "convolution_variants",
       "bordered_convolution",
       convolution},
      {"TcGroupConvolutionOp",
       {{"I", "Images."}, {"W", "Filters."}, {"B", "The bias of each filter."}},
       {{"O", "Images of all groups' filters."}},
       with_group(kWindow),
       "group_convolution",
       "bordered_group_convolution",
       convolution},
      {"TcLUTOp",
       {{"LUT", "A table: E rows of D values."}, {"I", "Bags of rows: B x L, int32 or int64."}},
       {{"O", "The sum of each bag's rows: B x D."}},
       {},
       "lookup_table",
       "lookup_table",
       by_definition},
      {"Tc2LUTOp",
       {{"LUT1", "A table."},
        {"I1", "Bags of its rows."},
        {"LUT2", "Another table."},
        {"I2", "Bags of its rows."}},
       {{"O1", "The sums for the first table."}, {"O2", "Those for the second."}},
       {},
       "lookup_table",
       "two_lookup_tables",
       by_definition},
      {"TcDperLutConcatOp",
       {{"I1", "Dense values: B x M."},
        {"I2", "Bags of rows of the first table: B x L1."},
        {"I3", "Bags of rows of the second: B x L2."},
        {"W1", "The weight of a layer over the dense values: N x M."},
        {"B1", "Its bias."},
        {"LUT1", "A table."},
        {"LUT2", "Another."}},
       {{"O1", "The layer's results."},
        {"O2", "The sums for the first table."},
        {"O3", "Those for the second."}},
       {},
       "lookup_table",
       "dense_and_lookup_tables",
       by_definition},
  };
  return all;
}

std::string documentation(const LibraryOperator& library_operator) {
  std::string text = ops_text(library_operator.file);
  size_t begin = text.find("def " + std::string(library_operator.definition) + "(");
  size_t end = std::min(text.find("\n}", begin), text.size() - 2) + 2;
  while (begin > 1) {
    size_t above = text.rfind('\n', begin - 2);
    above = above == std::string::npos ? 0 : above + 1;
    if (text[above] != '#') break;
    begin = above;
  }
  return text.substr(begin, end - begin);
}

}  // namespace tc_caffe2
