#include <algorithm>
#include <utility>

#include "libmeg/text/whitespace.h"
#include "libmeg/tokenizer/interface/encode_text.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/tokenizer_inspect/tokenizer_inspect.h"

namespace meg::tools {
namespace {

bool is_space(char c) { return text::kWhitespace.find(c) != text::kWhitespace.npos; }

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool was_space = true;
  for (const char c : text) {
    words += was_space && !is_space(c) ? 1 : 0;
    was_space = is_space(c);
  }
  return words;
}

/// Adds up what its texts come to; the only visitor where there is another tokenizer.
class StatisticsVisitor : public preprocess::TextVisitor {
 public:
  StatisticsVisitor(const tokenizer::Tokenizer& tokenizer, const tokenizer::Tokenizer* other)
      : tokenizer_(tokenizer), encoder_(tokenizer.new_encoder(DType::kInt32)) {
    if (other != nullptr) other_ = other->new_encoder(DType::kInt32);
  }

  Status visit(std::string_view text) override {
    MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer::encode_text(*encoder_, text));
    if (other_ != nullptr && !statistics.difference) {
      MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> others,
                           tokenizer::encode_text(*other_, text));
      note_difference(text, ids, others);
    }
    ++texts_;
    statistics.bytes += static_cast<int64_t>(text.size());
    statistics.words += count_words(text);
    statistics.tokens += std::ssize(ids);
    return {};
  }

  TextStatistics statistics;

 private:
  void note_difference(std::string_view text, const std::vector<int32_t>& ids,
                       const std::vector<int32_t>& others) {
    if (ids == others) return;
    const auto [first, ignored] =
        std::mismatch(ids.begin(), ids.end(), others.begin(), others.end());
    size_t at = 0;  // bytes before the token, where tokens are the text's bytes
    for (auto id = ids.begin(); id != first; ++id) {
      at += tokenizer_.token_bytes(*id).value_or("").size();
    }
    statistics.difference = {texts_, static_cast<size_t>(first - ids.begin()),
                             std::string(text.substr(std::min(at, text.size()), 80))};
  }

  const tokenizer::Tokenizer& tokenizer_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_, other_;
  int64_t texts_ = 0;
};

double ratio(int64_t amount, int64_t of) {
  return of == 0 ? 0 : static_cast<double>(amount) / static_cast<double>(of);
}

}  // namespace

double TextStatistics::bytes_per_token() const { return ratio(bytes, tokens); }

double TextStatistics::tokens_per_word() const { return ratio(tokens, words); }

Result<TextStatistics> text_statistics(const std::string& text,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const tokenizer::Tokenizer* other) {
  StatisticsVisitor visitor(tokenizer, other);
  MEG_RETURN_IF_ERROR(visitor.visit(text));
  visitor.statistics.documents = 1;
  return visitor.statistics;
}

Result<TextStatistics> read_statistics(const preprocess::ReadTextsOptions& options, int workers,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const tokenizer::Tokenizer* other) {
  std::vector<std::unique_ptr<StatisticsVisitor>> visitors;
  std::vector<preprocess::TextVisitor*> all;
  for (int i = 0; i < (other == nullptr ? workers : 1); ++i) {
    visitors.push_back(std::make_unique<StatisticsVisitor>(tokenizer, other));
    all.push_back(visitors.back().get());
  }
  ProgressBar bar(0);
  MEG_ASSIGN_OR_RETURN(const preprocess::ReadTextsSummary summary,
                       preprocess::read_texts(options, all, bar.interruptible_callback()));
  bar.clear();
  for (const std::string& text : summary.warnings) warning(text);
  TextStatistics total = std::move(visitors.front()->statistics);
  for (size_t i = 1; i < visitors.size(); ++i) {
    const TextStatistics& part = visitors[i]->statistics;
    total.bytes += part.bytes;
    total.words += part.words;
    total.tokens += part.tokens;
  }
  total.documents = summary.documents;
  return total;
}

}  // namespace meg::tools
