#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "libmeg/base/status.h"
#include "libmeg/evaluation/scoring.h"
#include "tools/common/flag_groups/inference_flags.h"
#include "tools/common/progress_bar.h"

namespace meg::tools {

/// The command line of evaluate_gpt.
struct EvaluateFlags {
  InferenceFlags inference;
  std::string task;  ///< LAMBADA or WIKITEXT103.
  std::string valid_data;
  bool strict_lambada = false;
  int64_t overlapping_eval = 32;
  int64_t log_interval = 100;
  bool json = false;
  std::optional<std::string> output;
};

/// How long the parts of an evaluation took.
struct Seconds {
  double load = 0, tokenize = 0, score = 0;
};

/// Evaluates and prints. seconds: of loading.
Status evaluate_lambada(const EvaluateFlags& flags, app::LoadedModel& loaded,
                        const parallel::ParallelState& ranks, Seconds seconds);
Status evaluate_wikitext(const EvaluateFlags& flags, app::LoadedModel& loaded,
                         const parallel::ParallelState& ranks, Seconds seconds);

/// How sequences are scored: by the flags, with Megatron's line every log_interval batches and, on
/// a terminal, the bar, which must outlive the options.
evaluation::ScoringOptions scoring_options(const EvaluateFlags& flags,
                                           const tokenizer::Tokenizer& tokenizer, ProgressBar& bar);

/// One line on standard output, at once. Nothing where --json is to stand there alone.
void print_line(const EvaluateFlags& flags, const std::string& line);

/// How quick it was, on standard error, unless --json says it. what: such as "examples"; tokens:
/// that went into the model.
void print_rate(const EvaluateFlags& flags, int64_t count, const char* what, int64_t tokens,
                double seconds);

/// What --json says first: the task, its data, the checkpoint.
nlohmann::ordered_json json_of_run(const EvaluateFlags& flags, const app::LoadedModel& loaded);
nlohmann::ordered_json json_of(const Seconds& seconds);

/// Megatron's line of results, between two lines of dashes.
void print_results(const EvaluateFlags& flags, const std::string& results);

}  // namespace meg::tools
