// Files that several processes read and replace.
#pragma once

#include <functional>
#include <string>

namespace tc::store {

enum class Missing { Error, Empty };  ///< what a file that is not there counts as

/// The bytes of a regular file. CacheError.
std::string read_file(const std::string& path, Missing missing);

/// Replaces the bytes of a file by what `change` makes of them; a file that is not there is empty.
/// Readers see the old bytes or the new ones, processes that do this at once come one after the
/// other, and where anything fails the old file stays. CacheError; Interrupted where the host does
/// not want to wait for the others any longer.
void update_file(const std::string& path,
                 const std::function<std::string(const std::string&)>& change);

}  // namespace tc::store
