// How many lines of memory an operand's points bring to a cache.
#include "check.h"
#include "plan/forms/operands.h"

namespace {

using tc::plan::Footprint;
using Steps = std::vector<std::optional<int64_t>>;

/// Floats in two dimensions; a reduction walks all of the first one.
Footprint rows_of(double rows, double stride, double columns, Steps steps) {
  Footprint footprint;
  footprint.element = 4;
  footprint.dimensions = {{rows, stride, rows, rows, Steps(steps.size(), 0)},
                          {columns, 1, 1, 1, std::move(steps)}};
  return footprint;
}

void test_runs_that_begin_with_lines() {
  // 16 floats of every row fill a line, 8 take half of one; 24 lie in two wherever they begin.
  Footprint aligned = rows_of(100, 1024, 1024, {1});
  CHECK_EQ(aligned.lines({16}), 100.0);
  CHECK_EQ(aligned.lines({8}), 100.0);
  CHECK_EQ(aligned.lines({24}), 200.0);
  CHECK_EQ(aligned.lines({32}), 200.0);
}

void test_runs_that_begin_anywhere() {
  // Rows of 196 floats begin at multiples of 16 bytes: 64 bytes lie in two lines 3 times of 4.
  Footprint unaligned = rows_of(100, 196, 196, {1});
  CHECK_EQ(unaligned.lines({16}), 175.0);
  CHECK_EQ(unaligned.lines({8}), 125.0);
}

void test_rows_that_touch_are_one_run() {
  // 10 rows of 16, of which all columns are read.
  CHECK_EQ(rows_of(10, 16, 16, {1}).lines({16}), 10.0);
  // Of 4 columns out of 16 every line comes as well.
  CHECK_EQ(rows_of(10, 16, 16, {1}).lines({4}), 10.0);
  // One point of rows that the reduction walks along: 4000 bytes, from a multiple of 32 on.
  Footprint walked;
  walked.element = 4;
  walked.dimensions = {{64, 1000, 1, 1, {1}}, {1000, 1, 1000, 1000, {0}}};
  CHECK_EQ(walked.lines({1}), 63.0);
}

void test_places_that_data_says_lie_apart() {
  // 50 rows of a table of a million, 64 floats each.
  Footprint gathered;
  gathered.element = 4;
  gathered.dimensions = {{1e6, 64, 1e6, 50, {0}}, {64, 1, 1, 1, {1}}};
  CHECK_EQ(gathered.lines({64}), 200.0);
}

void test_empty_tensors() { CHECK_EQ(rows_of(0, 16, 16, {1}).lines({16}), 0.0); }

}  // namespace

int main() {
  test_runs_that_begin_with_lines();
  test_runs_that_begin_anywhere();
  test_rows_that_touch_are_one_run();
  test_places_that_data_says_lie_apart();
  test_empty_tensors();
  return check::finish();
}
