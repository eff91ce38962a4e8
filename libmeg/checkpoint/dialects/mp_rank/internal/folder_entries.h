#pragma once

#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// The files and folders in a folder, by name (links are followed).
class FolderEntries {
 public:
  static Result<FolderEntries> list(const std::string& path);

  bool has_file(std::string_view name) const;
  bool has_folder(std::string_view name) const;

  bool empty() const { return is_folder_.empty(); }

  /// Iterates over pairs of a name and whether it is a folder, by ascending name.
  auto begin() const { return is_folder_.begin(); }

  auto end() const { return is_folder_.end(); }

 private:
  std::map<std::string, bool, std::less<>> is_folder_;
};

/// folder/name
std::string join_path(const std::string& folder, std::string_view name);

/// A number made of ASCII digits only; nullopt if it is not one or does not fit.
template <class T>
std::optional<T> parse_digits(std::string_view text) {
  T value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace meg::checkpoint
