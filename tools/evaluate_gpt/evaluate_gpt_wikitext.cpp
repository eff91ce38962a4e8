#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "libmeg/base/stopwatch.h"
#include "libmeg/evaluation/wikitext.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/evaluate_gpt/evaluate_gpt.h"

namespace meg::tools {
namespace {

using evaluation::WikitextData;
using evaluation::WikitextSummary;
using nlohmann::ordered_json;

/// Writes a float that is neither small nor large as Python does: always with a point.
std::string python_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

ordered_json json_of(const EvaluateFlags& flags, const app::LoadedModel& loaded,
                     const evaluation::WikitextData& data,
                     const evaluation::WikitextSummary& summary, const Seconds& seconds) {
  ordered_json object = json_of_run(flags, loaded);
  object["sequence_length"] = loaded.sequence_length;
  object["overlapping_eval"] = flags.overlapping_eval;
  object["num_original_tokens"] = data.num_original_tokens;
  object["num_tokenized_tokens"] = data.num_tokenized_tokens();
  object["avg_loss"] = summary.avg_loss;
  object["ppl"] = summary.ppl;
  object["adjusted_ppl"] = summary.adjusted_ppl;
  object["token_ratio"] = summary.token_ratio;
  object["seconds"] = json_of(seconds);
  return object;
}

}  // namespace

Status evaluate_wikitext(const EvaluateFlags& flags, app::LoadedModel& loaded,
                         const parallel::ParallelState& ranks, Seconds seconds) {
  // Megatron would leave the tokens between two windows out of the sum of losses, but not out of
  // their number.
  if (flags.overlapping_eval > loaded.sequence_length) {
    return make_error(StatusCode::kInvalidArgument,
                      "--overlapping-eval: expected at most the sequence length {}, found {}",
                      loaded.sequence_length, flags.overlapping_eval);
  }
  const Stopwatch tokenizing;
  MEG_ASSIGN_OR_RETURN(const evaluation::WikitextData data,
                       evaluation::read_wikitext(flags.valid_data, *loaded.tokenizer));
  seconds.tokenize = tokenizing.seconds();
  for (const std::string& text : data.notes) note(text);
  print_line(flags,
             fmt::format(" > number of original tokens: {}, number of detokenized tokens: {}",
                         data.num_original_tokens, data.num_tokenized_tokens()));

  const Stopwatch scoring;
  const auto windows =
      evaluation::wikitext_windows(data.tokens, loaded.sequence_length, flags.overlapping_eval);
  ProgressBar bar(0);
  const auto scores = evaluation::score_sequences(
      loaded.model, windows, scoring_options(flags, *loaded.tokenizer, bar), ranks);
  bar.clear();
  if (!scores) return scores.error().with_prefix(flags.valid_data);
  seconds.score = scoring.seconds();
  int64_t tokens = 0;
  for (const auto& window : windows) tokens += static_cast<int64_t>(window.tokens.size()) - 1;
  print_rate(flags, static_cast<int64_t>(windows.size()), "windows", tokens, seconds.score);
  const evaluation::WikitextSummary summary = evaluation::summarize_wikitext(data, *scores);
  print_results(flags, fmt::format("avg loss: {:.4E} | ppl: {:.4E} | adjusted ppl: {:.4E} | "
                                   "token ratio: {} |",
                                   summary.avg_loss, summary.ppl, summary.adjusted_ppl,
                                   python_text(summary.token_ratio)));
  if (flags.json) print_json(json_of(flags, loaded, data, summary, seconds));
  return Status();
}

}  // namespace meg::tools
