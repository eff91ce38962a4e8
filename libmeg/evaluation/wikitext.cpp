#include "libmeg/evaluation/wikitext.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "libmeg/evaluation/internal/wikitext_detokenizer.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::evaluation {
namespace {

/// Megatron's bound of a loss before exp(): beyond it perplexities say nothing.
constexpr double kMaxExponent = 20;

}  // namespace

Result<WikitextData> read_wikitext(const std::string& path, const tokenizer::Tokenizer& tokenizer) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file,
                       io::MappedFile::open(path, io::MappedFile::Access::kSequential));
  const std::string_view text = file.text();
  if (const size_t at = text::find_invalid_utf8(text); at != std::string_view::npos) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: expected UTF-8", path, at);
  }
  const std::string_view stripped = text::python_strip(text);
  WikitextData data;
  // Count as Megatron's strip().split(" ") does: line ends part no words, and two spaces have an
  // empty one between them.
  data.num_original_tokens = 1 + std::count(stripped.begin(), stripped.end(), ' ');
  // Megatron reads bytes, so neither is left out.
  if (text.starts_with(text::kByteOrderMark)) {
    data.notes.push_back(path + ": the byte order mark (UTF-8 BOM) is part of the text");
  }
  if (text.find('\r') != std::string_view::npos) {
    data.notes.push_back(path + ": the CR of its line ends is part of the text");
  }
  Result<std::vector<int32_t>> tokens = tokenizer::encode_text(
      *tokenizer.new_encoder(DType::kInt32), detokenize_wikitext(std::string(text)));
  if (!tokens) return tokens.error().with_prefix(path);
  data.tokens = std::move(*tokens);
  if (data.num_original_tokens > 1 && data.tokens.size() > 1) return data;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a text of at least 2 words and tokens, found {} and {}", path,
                    stripped.empty() ? 0 : data.num_original_tokens, data.tokens.size());
}

std::vector<ScoringSequence> wikitext_windows(std::span<const int32_t> tokens,
                                              int64_t sequence_length, int64_t overlapping_eval) {
  const int64_t step = std::max(overlapping_eval, int64_t{1});
  const auto size = static_cast<int64_t>(tokens.size());
  std::vector<ScoringSequence> windows;
  for (int64_t start = 0; start + 1 < size; start += step) {
    const int64_t end = std::min(start + sequence_length + 1, size);
    // Each window scores only what no window before it did; the first one has no window before it.
    const int64_t first_target =
        start == 0 ? 1 : std::max(start + sequence_length + 1 - step, start + 1);
    if (first_target >= end) break;
    windows.push_back(
        {.tokens = tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start)),
         .targets = end - first_target,
         .first_token = start});
  }
  return windows;
}

WikitextSummary summarize_wikitext(const WikitextData& data,
                                   std::span<const SequenceScore> scores) {
  double sum = 0;
  for (const SequenceScore& score : scores) sum -= score.logprob();
  const auto tokenized = static_cast<double>(data.num_tokenized_tokens() - 1);
  WikitextSummary summary;
  summary.avg_loss = sum / tokenized;
  summary.ppl = std::exp(std::min(summary.avg_loss, kMaxExponent));
  summary.token_ratio = tokenized / static_cast<double>(data.num_original_tokens - 1);
  summary.adjusted_ppl = std::exp(std::min(summary.avg_loss * summary.token_ratio, kMaxExponent));
  return summary;
}

}  // namespace meg::evaluation
