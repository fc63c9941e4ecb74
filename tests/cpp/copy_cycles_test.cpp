// What the loops of a copy cost.
#include "plan/model/copy_cycles.h"

#include "check.h"

namespace {

using tc::plan::CopyLoop;
using tc::plan::cycles_of_copy;

tc::CpuMachine machine() {
  tc::CpuMachine cpu;
  cpu.vector_bits = 512;
  cpu.copied_element_cycles = 2;
  cpu.copied_vector_cycles = 3;
  cpu.transposed_row_cycles = 5;
  return cpu;
}

/// Rows of so many elements, 1000 apart, that become columns.
double transpose(int64_t row, int64_t rows) {
  return cycles_of_copy({{row, 1, static_cast<double>(rows)}, {rows, 1000, 1}}, 4, machine());
}

void test_runs_are_vectors() {
  // 10 rows of 40 floats are 3 vectors each.
  CHECK_EQ(cycles_of_copy({{40, 1, 1}, {10, 1000, 40}}, 4, machine()), 10 * 3 * 3.0);
  // Rows that follow each other are one run of 400.
  CHECK_EQ(cycles_of_copy({{40, 1, 1}, {10, 40, 40}}, 4, machine()), 25 * 3.0);
}

void test_squares() {
  CHECK_EQ(transpose(16, 32), 2 * 16 * 5.0);
  CHECK_EQ(transpose(8, 32), 4 * 8 * 5.0);
}

void test_squares_overlap_at_the_ends() {
  CHECK_EQ(transpose(17, 32), 2 * transpose(16, 32));
  CHECK_EQ(transpose(9, 24), 2 * 3 * 8 * 5.0);
}

void test_a_single_column_is_copied_element_by_element() {
  CHECK_EQ(transpose(1, 64), 64 * 2.0);
  CHECK_EQ(cycles_of_copy({{7, 10, 30}, {9, 100, 1000}}, 4, machine()), 63 * 2.0);
}

}  // namespace

int main() {
  test_runs_are_vectors();
  test_squares();
  test_squares_overlap_at_the_ends();
  test_a_single_column_is_copied_element_by_element();
  return check::finish();
}
