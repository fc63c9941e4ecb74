// What must hold of a tensor that comes through the C interface before anything of it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tc/tc.h"

namespace tc::runtime {

/// How many dimensions are read where nothing else says how many there are: as many as PyTorch's
/// tensors may have.
constexpr int32_t kMostDimensions = 64;

/// Refuses what no tensor has, whatever it is for: a negative number of dimensions or one past
/// `most`, no `shape`, a negative size, elements that lie further apart than memory reaches or past
/// its end, a device that is neither the CPU nor of CUDA. `data` may be NULL. `name` begins the
/// message ("argument A"). UsageError for pointers, ShapeError for numbers.
void check_tensor(const DLTensor& tensor, const std::string& name, int32_t most = kMostDimensions);

/// UsageError unless there is memory where there are elements.
void check_data(const DLTensor& tensor, const std::string& name);

/// "sizes (3, 4)"; "ndim -1" where there are no sizes that can be read.
std::string shape_text(const DLTensor& tensor);

/// "(3, 4)", "(3,)".
std::string tuple_text(const std::vector<int64_t>& numbers);

/// "cpu", "cuda:1".
std::string device_name(DLDevice device);

bool is_same_device(DLDevice a, DLDevice b);

}  // namespace tc::runtime
