// Compiled code in a folder of the user's own, where later processes find it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tc::store {

/// Bytes that a folder may hold where nobody says how many.
constexpr int64_t kMostCodeBytes = int64_t{1} << 30;

/// Code is kept in this folder from now on, which is made where it is missing; "" keeps none. It
/// then holds at most about so many bytes: what was used least recently goes. ~ is the home, and a
/// relative path is one below the working directory of this moment. CacheError where the
/// folder is somebody else's, or others may write to it: whoever does could have this process run
/// what they like.
void set_code_folder(const std::string& path, int64_t most_bytes);

/// The folder from the root, at first that of TC_CACHE_DIR, read as above; "" where there is none.
/// CacheError as above.
std::string code_folder();

/// What was kept under a key; nothing where that is missing, damaged or somebody else's. Keys are
/// compared as a whole.
std::optional<std::string> find_code(const std::string& key);

/// Keeps bytes under a key, in a file that is there as a whole or not at all, whoever else writes
/// at the same time or is killed. Where that fails it is told of, once for each reason.
void keep_code(const std::string& key, const std::string& bytes);

}  // namespace tc::store
