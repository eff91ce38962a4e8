#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// Reads the values of a dict in a torch file. A value that is absent or of another type reads as
/// zero or empty, and the first such value sets status() to kCorruption.
class ValueReader {
 public:
  /// where: the dict's name in errors. `file` and `where` must outlive the reader.
  ValueReader(const TorchFile& file, PickleId dict, std::string_view where)
      : file_(file), graph_(file.graph()), dict_(dict), where_(where) {}

  bool has(std::string_view key) const { return graph_.find(dict_, key).has_value(); }

  double real(std::string_view key);
  int64_t integer(std::string_view key);

  /// A tuple or list of two numbers.
  std::array<double, 2> pair(std::string_view key);

  /// A tensor of one float32, or a number.
  float scale(std::string_view key);

  /// Returns `otherwise` if there is no such key.
  double real_or(std::string_view key, double otherwise) {
    return has(key) ? real(key) : otherwise;
  }

  bool flag_or(std::string_view key, bool otherwise);

  const Status& status() const { return status_; }

 private:
  std::optional<PickleId> required(std::string_view key);
  void fail(std::string_view key, std::string_view expected, PickleId found);

  const TorchFile& file_;
  const PickleGraph& graph_;
  PickleId dict_;
  std::string_view where_;
  Status status_;
};

}  // namespace meg::checkpoint
