#include "libmeg/cleaning/internal/ngram_counter.h"

#include <string_view>

namespace meg::cleaning {
namespace {

/// Counts the n-grams of test sets in the documents that come to that step.
class NgramCounter : public preprocess::TextVisitor {
 public:
  NgramCounter(const CleanOptions& options, const std::vector<StepPlan>& plans, TestNgrams& ngrams)
      : options_(options), filter_(ngrams, *options.decontaminate) {
    for (const StepPlan& plan : plans) steps_.push_back(plan.make());
  }

  Status begin_document(std::string_view json, bool has_list,
                        const dataset::DocumentPlace& /*place*/) override {
    json_ = json;
    values_ = 0;
    return check_is_text(has_list);
  }

  Status visit(std::string_view text) override {
    if (values_++ == 0) text_ = text;
    if (values_ < options_.json_keys.size()) return {};
    Document document(json_, text_, words_);
    for (const std::unique_ptr<Step>& step : steps_) {
      MEG_ASSIGN_OR_RETURN(const std::string_view reason, step->run(document));
      if (!reason.empty()) return {};
    }
    filter_.count(document.text());
    return {};
  }

 private:
  const CleanOptions& options_;
  std::vector<std::unique_ptr<Step>> steps_;
  EnglishWords words_;
  NgramFilter filter_;
  std::string_view json_, text_;
  size_t values_ = 0;  // of the document, so far
};

}  // namespace

std::unique_ptr<preprocess::TextVisitor> make_ngram_counter(const CleanOptions& options,
                                                            const std::vector<StepPlan>& plans,
                                                            TestNgrams& ngrams) {
  return std::make_unique<NgramCounter>(options, plans, ngrams);
}

}  // namespace meg::cleaning
