#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::serving {

inline constexpr int64_t kMaxInteger = std::numeric_limits<int64_t>::max();

/// kInvalidArgument.
template <class... Args>
Status refuse(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

/// The keys of a JSON object, read by name. Every error is kInvalidArgument and names its key.
class JsonFields {
 public:
  /// text: one JSON object; if a key occurs twice, the last one counts.
  static Result<JsonFields> parse(std::string_view text);

  /// Removes the keys whose value is null.
  void drop_nulls();

  bool has(std::string_view key) const { return object_.contains(key); }

  /// An error for the first key that is not in `known`; it suggests the nearest that is.
  Status only_known(std::span<const std::string_view> known) const;

  /// *value is unchanged if the key is missing; the same applies below.
  Status read(std::string_view key, bool* value) const;

  /// Integers from min to max; not true or false, and no 5.0.
  Status read(std::string_view key, int64_t* value, int64_t min, int64_t max) const;

  /// Any number that a double holds, integers too.
  Status read(std::string_view key, double* value) const;

  Status read(std::string_view key, std::string* value) const;

  /// nullptr if the key is missing.
  const nlohmann::json* find(std::string_view key) const;

  const nlohmann::json& object() const { return object_; }

  /// `value` for a message: a short value as written, else what kind it is.
  static std::string describe(const nlohmann::json& value);

 private:
  nlohmann::json object_;
};

/// The ids of a list, each of which must be below vocab_size; `key` is what messages call it.
Result<std::vector<int32_t>> read_ids(const nlohmann::json& list, std::string_view key,
                                      int64_t vocab_size);

}  // namespace meg::serving
