// Of what the steps of a register tile load, the share that differs.
#include "plan/model/shared_windows.h"

#include "check.h"

using tc::plan::different_share;

int main() {
  // Rows h of 56 that read h + kh: places 0 to 4.
  CHECK_EQ(different_share({{56, 3}, {56, 3}}), 5.0 / 9);
  // Backwards as well. By twos: 0, 2, 4 and up to 2 more, all of 0 to 6.
  CHECK_EQ(different_share({{56, 3}, {-56, 3}}), 5.0 / 9);
  CHECK_EQ(different_share({{112, 3}, {56, 3}}), 7.0 / 9);
  // By fours a window of three has nothing in common with the next one.
  CHECK_EQ(different_share({{224, 3}, {56, 3}}), 1.0);
  // Two dimensions: vectors of 16 whose windows overlap begin elsewhere.
  CHECK_EQ(different_share({{16, 2}, {56, 3}, {56, 3}, {1, 3}}), 5.0 / 9);
  // A window of 17 begins where the next vector begins.
  CHECK_EQ(different_share({{16, 2}, {1, 17}}), 33.0 / 34);
  // What a step does not move along.
  CHECK_EQ(different_share({{16, 2}, {0, 4}}), 0.25);
  CHECK_EQ(different_share({}), 1.0);
  return check::finish();
}
