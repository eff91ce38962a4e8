#include "libmeg/model/internal/pipeline_layout_text.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "libmeg/text/printable.h"

namespace meg::model {
namespace {

constexpr char kEmbedding = 'E', kLoss = 'L', kMultiTokenPrediction = 'm', kStageEnd = '|';
/// Far more than any model has layers.
constexpr size_t kLongest = size_t{1} << 16;

Status refused(std::string_view text, std::string_view expected) {
  return make_error(StatusCode::kInvalidArgument,
                    "pipeline-model-parallel-layout: expected {}, found {}", expected,
                    text::printable(text, 200));
}

/// Returns the number after a `*` at `at`, and moves `at` past it; nullopt: none stands there.
std::optional<size_t> take_factor(std::string_view text, size_t* at) {
  if (*at >= text.size() || text[*at] != '*') return std::nullopt;
  const char* const begin = text.data() + *at + 1;
  size_t factor = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), factor);
  if (end == begin) return std::nullopt;
  *at = static_cast<size_t>(end - text.data());
  return error == std::errc() ? factor : kLongest + 1;
}

/// `(...)*n` written out where in_parentheses, else `x*n`; false where that gets too long.
bool unroll(std::string_view text, bool in_parentheses, std::string* unrolled) {
  for (size_t at = 0; at < text.size();) {
    std::string_view repeated = text.substr(at, 1);
    size_t behind = at + 1;
    if (in_parentheses) {
      const size_t close = text.find(')', at + 1);
      const bool opens = text[at] == '(' && close != text.npos && close > at + 1;
      repeated = opens ? text.substr(at + 1, close - at - 1) : std::string_view();
      behind = opens ? close + 1 : text.size();
    }
    const std::optional<size_t> factor = take_factor(text, &behind);
    if (!factor.has_value()) {
      unrolled->push_back(text[at++]);
    } else {
      at = behind;
      if (*factor > kLongest / repeated.size()) return false;
      for (size_t i = 0; i < *factor; ++i) *unrolled += repeated;
    }
    if (unrolled->size() > kLongest) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<std::string>> parse_pipeline_layout(std::string_view text) {
  std::string letters;
  std::ranges::remove_copy(text, std::back_inserter(letters), ',');
  for (const bool in_parentheses : {true, false}) {
    std::string unrolled;
    if (letters.size() > kLongest || !unroll(letters, in_parentheses, &unrolled)) {
      return refused(text, "a layout of at most 65536 letters");
    }
    letters = std::move(unrolled);
  }
  std::vector<std::string> stages(1);
  for (const char letter : letters) {
    if (letter == kMultiTokenPrediction) {
      return make_error(StatusCode::kUnsupported,
                        "pipeline-model-parallel-layout {}: m: multi-token prediction is not "
                        "supported yet",
                        text::printable(text, 200));
    }
    if (letter == kStageEnd) {
      stages.emplace_back();
    } else if (letter == kEmbedding || letter == kDecoderLayer || letter == kLoss) {
      stages.back().push_back(letter);
    } else {
      return refused(text, "E, t, L and | with factors, such as Et*3|(tt|)*2tL");
    }
  }
  return stages;
}

Status check_pipeline_layout(std::span<const std::string> stages, int64_t num_layers) {
  std::string letters, shown;
  for (const std::string& stage : stages) {
    letters += stage;
    shown += (&stage == &stages.front() ? "" : "|") + stage;
  }
  // Megatron places both there whatever the text says.
  const bool at_ends = stages.front().starts_with(kEmbedding) && stages.back().ends_with(kLoss);
  const bool once =
      std::ranges::count(letters, kEmbedding) == 1 && std::ranges::count(letters, kLoss) == 1;
  if (!at_ends || !once) {
    return refused(shown,
                   "one E, with which the first stage begins, and one L, with which the "
                   "last one ends");
  }
  const auto layers = std::ranges::count(letters, kDecoderLayer);
  if (layers == num_layers) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "pipeline-model-parallel-layout: expected as many t as num_layers {}, found {}",
                    num_layers, layers);
}

}  // namespace meg::model
