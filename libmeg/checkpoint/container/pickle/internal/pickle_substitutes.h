#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_output.h"

namespace meg::checkpoint {

/// Values that protocol 2 lacks, as the calls that CPython writes in their place. What these share
/// (functions, the word latin1) is written once a pickle. None of them ends with a PUT of its own.
class PickleSubstitutes {
 public:
  /// The output outlives this object.
  explicit PickleSubstitutes(PickleOutput& output) : output_(output) {}

  /// A class or function of Python that no node stands for.
  void global(std::string_view module, std::string_view name);

  /// _codecs.encode(text, "latin1"), where the code points of text are the bytes.
  void bytes(std::string_view bytes);
  void byte_array(std::string_view bytes);

  /// Outer.Inner as getattr(Outer, "Inner").
  void path(std::string_view module, std::string_view path);

 private:
  void latin1();

  PickleOutput& output_;
  std::map<std::pair<std::string, std::string>, uint32_t> globals_;
  int64_t latin1_ = -1;
};

}  // namespace meg::checkpoint
