#include "libmeg/schedule/schedule_styles.h"

#include <array>
#include <string>

#include "libmeg/text/printable.h"

namespace meg::schedule {
namespace {

// The names are in the order of the enumerators.
constexpr std::array<std::string_view, 5> kLrDecayStyles = {"constant", "linear", "cosine",
                                                            "inverse-square-root", "WSD"};
constexpr std::array<std::string_view, 4> kLrWsdDecayStyles = {"linear", "cosine", "exponential",
                                                               "minus_sqrt"};
constexpr std::array<std::string_view, 3> kWeightDecayIncrStyles = {"constant", "linear", "cosine"};

template <class Style, size_t N>
Result<Style> parse(const std::array<std::string_view, N>& names, std::string_view text) {
  std::string known;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<Style>(i);
    known += i == 0 ? "" : ", ";
    known += names[i];
  }
  return make_error(StatusCode::kInvalidArgument, "expected one of {}, found {}", known,
                    text::printable(text));
}

}  // namespace

std::string_view style_text(LrDecayStyle style) {
  return kLrDecayStyles[static_cast<size_t>(style)];
}

std::string_view style_text(LrWsdDecayStyle style) {
  return kLrWsdDecayStyles[static_cast<size_t>(style)];
}

std::string_view style_text(WeightDecayIncrStyle style) {
  return kWeightDecayIncrStyles[static_cast<size_t>(style)];
}

Result<LrDecayStyle> parse_lr_decay_style(std::string_view text) {
  return parse<LrDecayStyle>(kLrDecayStyles, text);
}

Result<LrWsdDecayStyle> parse_lr_wsd_decay_style(std::string_view text) {
  return parse<LrWsdDecayStyle>(kLrWsdDecayStyles, text);
}

Result<WeightDecayIncrStyle> parse_weight_decay_incr_style(std::string_view text) {
  return parse<WeightDecayIncrStyle>(kWeightDecayIncrStyles, text);
}

}  // namespace meg::schedule
