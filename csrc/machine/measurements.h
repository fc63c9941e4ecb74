// What was measured in this process, by what it was measured for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tc::machine {

/// Nothing where that was not measured yet.
std::optional<std::vector<double>> find_measured(const std::string& what);

/// What was measured before, or what `measure` gives now, one at a time, since others would disturb
/// it; it may ask for further measurements. What comes first stays while the process runs, and in
/// its children: decisions do not change with a machine's pace. An exception leaves nothing behind.
std::vector<double> measure_once(const std::string& what,
                                 const std::function<std::vector<double>()>& measure);

}  // namespace tc::machine
