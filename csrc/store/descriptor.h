// Descriptors of open files and folders.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tc::store {

/// A file descriptor; closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const std::string& path, int flags)
      : number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  /// As many bytes as there is room for, fewer where the file ends before. False: errno says why.
  bool read_all(std::string& bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = read(number_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      if (count == 0) bytes.resize(done);
      done += static_cast<size_t>(count);
    }
    return true;
  }
  bool write_all(const std::string& bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = write(number_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      done += static_cast<size_t>(count);
    }
    return true;
  }

 private:
  int number_;
};

}  // namespace tc::store
