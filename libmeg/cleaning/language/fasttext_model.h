#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::cleaning {

/// A classifier of texts in the file format of fastText 0.9.2 (.bin, or .ftz, which is quantized),
/// such as lid.176.bin. Any number of threads.
class FastTextModel {
 public:
  /// kCorruption for what is no such file or contradicts itself, kUnsupported for a model that
  /// classifies nothing, or with n-grams of more than 64 characters or words.
  static Result<FastTextModel> open(const std::string& path);
  FastTextModel(FastTextModel&&) noexcept;
  FastTextModel& operator=(FastTextModel&&) noexcept;
  ~FastTextModel();

  /// Without `__label__`.
  const std::vector<std::string>& labels() const;

  /// What a thread needs while it classifies.
  struct Scratch {
    std::vector<int32_t> rows;
    std::vector<int32_t> hashes;
    std::vector<float> hidden, nodes;
    std::string word;
  };

  /// The probability of each label, as fastText's predict(text, k=-1) with line ends as spaces; all
  /// 0 where no word of the text is known.
  void predict(std::string_view text, Scratch& scratch, std::vector<float>& scores) const;

 private:
  struct State;
  explicit FastTextModel(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace meg::cleaning
