// Helper functions that CUDA texts start with. Each text holds only those it uses.
#pragma once

#include <string>

namespace tc::codegen {

/// What a text uses.
struct CudaPrelude {
  bool bits = false;           ///< tc::bits<To>(from): the same bits as another type
  bool min_max = false;        ///< tc::min, tc::max: NaN propagates
  bool floor_div = false;      ///< tc::floor_div, tc::floor_mod on integers
  bool truncate_div = false;   ///< tc::truncate_div, tc::truncate_mod, total
  bool classify = false;       ///< tc::isnan, tc::isinf, tc::isfinite
  bool atomic = false;         ///< tc::atomic_sum, _product, _min, _max in memory
  bool half = false;           ///< tc::half, tc::to_half, tc::to_float
  bool bfloat16 = false;       ///< tc::bfloat16, tc::to_bfloat16, tc::to_float
  bool checked_index = false;  ///< tc::checked_index, tc::bad_index: where a bad one is reported
  bool dynamic_shared = false;

  std::string text() const;
};

}  // namespace tc::codegen
