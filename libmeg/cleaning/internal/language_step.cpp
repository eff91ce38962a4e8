#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/language/fasttext_model.h"
#include "libmeg/cleaning/language/language_rule.h"

namespace meg::cleaning {
namespace {

constexpr std::string_view kUnknown = "unknown";

/// datatrove's LanguageFilter: a document stays if one of the languages has more than the
/// threshold; where all languages are allowed, the likeliest one.
class FastTextStep : public Step {
 public:
  FastTextStep(const LanguageOptions& options, std::shared_ptr<const FastTextModel> model)
      : threshold_(options.threshold), model_(std::move(model)) {
    const std::vector<std::string>& labels = model_->labels();
    for (size_t i = 0; i < labels.size(); ++i) {
      const bool is_wanted =
          options.languages.empty() || std::find(options.languages.begin(), options.languages.end(),
                                                 labels[i]) != options.languages.end();
      if (is_wanted) wanted_.push_back(i);
    }
  }

  Result<std::string_view> run(Document& document) override {
    model_->predict(document.text(), scratch_, scores_);
    const auto best = std::max_element(scores_.begin(), scores_.end());
    const bool is_known = *best > 0;
    const std::string_view language =
        is_known ? std::string_view(model_->labels()[static_cast<size_t>(best - scores_.begin())])
                 : kUnknown;
    document.set_language(language);
    const bool stays = std::any_of(wanted_.begin(), wanted_.end(),
                                   [this](size_t i) { return scores_[i] > threshold_; });
    return stays ? std::string_view() : language;
  }

 private:
  double threshold_;
  std::shared_ptr<const FastTextModel> model_;
  std::vector<size_t> wanted_;
  FastTextModel::Scratch scratch_;
  std::vector<float> scores_;
};

class RuleStep : public Step {
 public:
  explicit RuleStep(const LanguageOptions& options) : options_(options) {}

  Result<std::string_view> run(Document& document) override {
    const LanguageRule::Guess guess = rule_.guess(document.text());
    const std::string_view language = guess.language.empty() ? kUnknown : guess.language;
    document.set_language(language);
    const std::vector<std::string>& wanted = options_.languages;
    const bool is_wanted =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), language) != wanted.end();
    return is_wanted && guess.score > options_.threshold ? std::string_view() : language;
  }

 private:
  const LanguageOptions& options_;
  LanguageRule rule_;
};

Status check_languages(const std::vector<std::string>& asked,
                       const std::vector<std::string_view>& known, std::string_view whose) {
  for (const std::string& name : asked) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return make_error(
        StatusCode::kInvalidArgument, "`languages`: expected those of {} ({}{}), found {}", whose,
        fmt::join(known.begin(),
                  known.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(known.size(), 60)),
                  " "),
        known.size() > 60 ? " ..." : "", name);
  }
  return {};
}

}  // namespace

Result<StepPlan> plan_language(const LanguageOptions& options) {
  // NaN is none of them either.
  if (!(options.threshold >= 0 && options.threshold < 1)) {
    return make_error(StatusCode::kInvalidArgument,
                      "`language_threshold`: expected at least 0, less than 1, found {}",
                      options.threshold);
  }
  if (options.model.empty()) {
    MEG_RETURN_IF_ERROR(check_languages(options.languages, LanguageRule::languages(),
                                        "the rule of scripts and stop words"));
    return StepPlan{.name = "language",
                    .make = [&options] { return std::make_unique<RuleStep>(options); }};
  }
  MEG_ASSIGN_OR_RETURN(FastTextModel opened, FastTextModel::open(options.model));
  const auto model = std::make_shared<const FastTextModel>(std::move(opened));
  const std::vector<std::string>& labels = model->labels();
  MEG_RETURN_IF_ERROR(
      check_languages(options.languages, {labels.begin(), labels.end()}, options.model));
  return StepPlan{.name = "language", .make = [&options, model] {
                    return std::make_unique<FastTextStep>(options, model);
                  }};
}

}  // namespace meg::cleaning
