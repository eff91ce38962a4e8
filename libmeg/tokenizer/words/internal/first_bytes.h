#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace meg::tokenizer {

/// The bytes with which the texts begin that are looked for in other texts.
class FirstBytes {
 public:
  void add(char byte);

 private:
  friend class FirstByteSearch;

  std::string bytes_;
  std::array<bool, 256> has_{};
};

/// Finds the places of FirstBytes in one text, which must outlive it, as must the bytes.
class FirstByteSearch {
 public:
  FirstByteSearch(const FirstBytes& bytes, std::string_view text) : bytes_(bytes), text_(text) {}

  /// The first place from `at` on; npos if there is none. `at` never decreases from call to call.
  size_t next(size_t at);

 private:
  /// So many bytes are looked for one by one, by a library function that compares many at once.
  static constexpr size_t kFew = 4;

  const FirstBytes& bytes_;
  const std::string_view text_;
  std::array<size_t, kFew> places_{};  // of each byte; those before the last `at` are out of date
  bool has_places_ = false;
};

}  // namespace meg::tokenizer
