// Evaluates a GPT model, zero-shot. Stands for Megatron-LM tasks/main.py (zeroshot_gpt).

#include "tools/evaluate_gpt/evaluate_gpt.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "libmeg/base/stopwatch.h"
#include "tools/common/json_output.h"
#include "tools/common/model_run.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void declare_flags(Flags& flags, EvaluateFlags& evaluate) {
  flags.group("Evaluation");
  flags.value("--task", &evaluate.task, "TASK", "benchmark to evaluate")
      .required()
      .choices({"LAMBADA", "WIKITEXT103"});
  flags
      .value("--valid-data", &evaluate.valid_data, "FILE",
             "test set: JSON lines for LAMBADA, plain text for WIKITEXT103")
      .required();
  flags.toggle("--strict-lambada", &evaluate.strict_lambada,
               "predict the last word of LAMBADA's texts instead of the last token");
  flags
      .value("--overlapping-eval", &evaluate.overlapping_eval, "N",
             "tokens between the starts of two windows of WIKITEXT103")
      .range(1, kMost);
  flags.value("--log-interval", &evaluate.log_interval, "N", "batches between two lines of the log")
      .range(1, kMost);
  flags.toggle("--json", &evaluate.json,
               "print one JSON object instead of lines; for LAMBADA with both definitions");
  flags.value("--output", &evaluate.output, "FILE",
              "file to write the result of each LAMBADA example to, as JSON lines");
  declare_inference_flags(flags, megatron::ArgumentFamily::kTasks, {}, evaluate.inference);
}

Status check_usage(const Flags& flags, EvaluateFlags& evaluate) {
  MEG_RETURN_IF_ERROR(finish_inference_flags(flags, evaluate.inference));
  if (!evaluate.output.has_value() || evaluate.task == "LAMBADA") return Status();
  return Status(StatusCode::kInvalidArgument, "--output: only --task LAMBADA has examples");
}

int main(int argc, const char* const* argv) {
  EvaluateFlags evaluate;
  Flags flags("evaluate_gpt",
              "evaluates a trained GPT model on LAMBADA or WikiText-103, zero-shot.");
  flags.examples(
      {"evaluate_gpt --task LAMBADA --valid-data lambada_test.jsonl --strict-lambada --load "
       "checkpoints --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
       "evaluate_gpt --task WIKITEXT103 --valid-data wiki.test.tokens --overlapping-eval 32 --load "
       "checkpoints --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"});
  declare_flags(flags, evaluate);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (const Status usage = check_usage(flags, evaluate); !usage.ok()) return fail_usage(usage);
  // Counts reading the checkpoint and meeting the other ranks.
  const Stopwatch loading;
  const auto lead = [&](app::LoadedModel& loaded, const parallel::ParallelState& ranks) {
    const Seconds seconds = {.load = loading.seconds()};
    return evaluate.task == "LAMBADA" ? evaluate_lambada(evaluate, loaded, ranks, seconds)
                                      : evaluate_wikitext(evaluate, loaded, ranks, seconds);
  };
  return run_model(evaluate.inference, {.lead = lead, .follow = evaluation::follow_scoring});
}

}  // namespace

evaluation::ScoringOptions scoring_options(const EvaluateFlags& flags,
                                           const tokenizer::Tokenizer& tokenizer,
                                           ProgressBar& bar) {
  evaluation::ScoringOptions options;
  options.vocab_size = tokenizer.vocab_size();
  options.batch_sequences = flags.inference.micro_batch_size;
  options.progress = bar.callback();
  options.on_batch = [&flags, &bar](int64_t iteration) {
    if (iteration % flags.log_interval != 0) return;
    // The line would be drawn into the bar.
    bar.clear();
    print_line(flags, fmt::format("> working on iteration: {}", iteration));
  };
  return options;
}

void print_line(const EvaluateFlags& flags, const std::string& line) {
  if (flags.json) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void print_rate(const EvaluateFlags& flags, int64_t count, const char* what, int64_t tokens,
                double seconds) {
  if (flags.json) return;
  fmt::print(stderr, "scored {} {} in {:.2f} s: {:.1f} {}/s, {:.0f} tokens/s\n", count, what,
             seconds, static_cast<double>(count) / seconds, what,
             static_cast<double>(tokens) / seconds);
}

nlohmann::ordered_json json_of_run(const EvaluateFlags& flags, const app::LoadedModel& loaded) {
  nlohmann::ordered_json object = json_object();
  object["task"] = flags.task;
  object["valid_data"] = flags.valid_data;
  object["load"] = flags.inference.load;
  object["iteration"] = loaded.iteration.has_value() ? nlohmann::ordered_json(*loaded.iteration)
                                                     : nlohmann::ordered_json();
  return object;
}

nlohmann::ordered_json json_of(const Seconds& seconds) {
  return {{"load", seconds.load}, {"tokenize", seconds.tokenize}, {"score", seconds.score}};
}

void print_results(const EvaluateFlags& flags, const std::string& results) {
  const std::string line = fmt::format(" validation results on {} | {}", flags.task, results);
  const std::string dashes(line.size() + 1, '-');
  print_line(flags, fmt::format("{}\n{}\n{}\ndone :-)", dashes, line, dashes));
}

}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
