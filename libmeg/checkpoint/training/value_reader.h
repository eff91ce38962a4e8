#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/torch_file/torch_file.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/core/status.h"

namespace meg {

/// Reads the values of a dict in a torch file, each under any of the names that revisions gave it.
/// What is absent or of another type makes status() kCorruption, the first one's, and reads as
/// nothing.
class ValueReader {
 public:
  using Keys = std::initializer_list<std::string_view>;

  /// where: the dict's name in errors. Both outlive the reader.
  ValueReader(const TorchFile& file, PickleId dict, std::string_view where)
      : file_(file), graph_(file.graph()), dict_(dict), where_(where) {}

  bool has(Keys keys) const { return find(keys).has_value(); }

  Number number(Keys keys);

  double real(Keys keys) { return as_double(number(keys)); }

  int64_t integer(Keys keys);
  std::string text(Keys keys);

  /// A tuple or list of two numbers.
  std::array<double, 2> pair(Keys keys);

  /// A tensor of one float32, or a number.
  float scale(Keys keys);

  /// Where there is no such key: `otherwise`.
  double real_or(Keys keys, double otherwise) { return has(keys) ? real(keys) : otherwise; }

  bool flag_or(Keys keys, bool otherwise);

  const Status& status() const { return status_; }

 private:
  std::optional<PickleId> find(Keys keys) const;
  std::optional<PickleId> required(Keys keys);
  void fail(Keys keys, std::string_view expected, PickleId found);

  const TorchFile& file_;
  const PickleGraph& graph_;
  PickleId dict_;
  std::string_view where_;
  Status status_;
};

/// The float32 of a tensor that holds one; nullopt for other tensors.
Result<std::optional<float>> read_one_float(const TorchFile& file, const TensorView& tensor);

}  // namespace meg
