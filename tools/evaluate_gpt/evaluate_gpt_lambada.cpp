#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "libmeg/base/stopwatch.h"
#include "libmeg/evaluation/lambada.h"
#include "libmeg/io/atomic_file.h"
#include "tools/common/byte_size.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/evaluate_gpt/evaluate_gpt.h"

namespace meg::tools {
namespace {

using evaluation::LambadaExample;
using evaluation::LambadaSummary;
using evaluation::LambadaTarget;
using evaluation::SequenceScore;
using nlohmann::ordered_json;

/// The file's examples and what the model says about them.
struct Definition {
  evaluation::LambadaTarget target = evaluation::LambadaTarget::kLastToken;
  std::vector<evaluation::LambadaExample> examples;
  std::vector<evaluation::SequenceScore> scores;
};

/// The one that was requested first; --json gives both.
std::vector<evaluation::LambadaTarget> wanted(const EvaluateFlags& flags) {
  const evaluation::LambadaTarget both[] = {evaluation::LambadaTarget::kLastToken,
                                            evaluation::LambadaTarget::kLastWord};
  std::vector<evaluation::LambadaTarget> targets = {both[flags.strict_lambada ? 1 : 0]};
  if (flags.json) targets.push_back(both[flags.strict_lambada ? 0 : 1]);
  return targets;
}

Status score(const EvaluateFlags& flags, app::LoadedModel& loaded,
             const parallel::ParallelState& ranks, std::vector<Definition>& definitions) {
  std::vector<std::vector<evaluation::LambadaExample>> examples;
  for (Definition& definition : definitions) examples.push_back(std::move(definition.examples));
  ProgressBar bar(0);
  auto scores = evaluation::score_lambada(loaded.model, examples,
                                          scoring_options(flags, *loaded.tokenizer, bar), ranks);
  if (!scores) return scores.error().with_prefix(flags.valid_data);
  for (size_t i = 0; i < definitions.size(); ++i) {
    definitions[i].examples = std::move(examples[i]);
    definitions[i].scores = std::move((*scores)[i]);
  }
  return Status();
}

/// A perplexity past every number is none to JSON.
ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

ordered_json json_of(const Definition& definition) {
  const evaluation::LambadaSummary summary =
      evaluation::summarize_lambada(definition.examples, definition.scores);
  int64_t targets = 0;
  for (const evaluation::LambadaExample& example : definition.examples) targets += example.targets;
  ordered_json object;
  object["correct"] = summary.correct;
  object["accuracy"] = summary.accuracy;
  object["perplexity"] = number(summary.perplexity);
  object["target_tokens"] = targets;
  return object;
}

ordered_json json_of(const EvaluateFlags& flags, const app::LoadedModel& loaded,
                     const std::vector<Definition>& definitions, const Seconds& seconds) {
  ordered_json object = json_of_run(flags, loaded);
  object["examples"] = definitions.front().examples.size();
  for (const Definition& definition : definitions) {
    const bool is_strict = definition.target == evaluation::LambadaTarget::kLastWord;
    object[is_strict ? "strict" : "last_token"] = json_of(definition);
  }
  object["seconds"] = json_of(seconds);
  return object;
}

Status write_results(const std::string& path, const Definition& definition) {
  std::string lines;
  for (size_t i = 0; i < definition.examples.size(); ++i) {
    const evaluation::LambadaExample& example = definition.examples[i];
    const evaluation::SequenceScore& score = definition.scores[i];
    ordered_json object;
    object["index"] = i;
    object["context"] = example.context();
    object["target"] =
        std::vector<int32_t>(example.tokens.end() - example.targets, example.tokens.end());
    object["predicted"] = score.predicted;
    object["correct"] = evaluation::is_correct(example, score);
    object["logprob"] = score.logprob();
    lines += object.dump() + "\n";
  }
  note_new_folders(path);
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(lines))));
  MEG_RETURN_IF_ERROR(file.commit());
  note(written_text(path, {&path, 1}));
  return Status();
}

}  // namespace

Status evaluate_lambada(const EvaluateFlags& flags, app::LoadedModel& loaded,
                        const parallel::ParallelState& ranks, Seconds seconds) {
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                       evaluation::read_lambada_texts(flags.valid_data));

  print_line(flags, fmt::format("> building lambada dataset from {} ...", flags.valid_data));
  const Stopwatch tokenizing;
  std::vector<Definition> definitions;
  for (const evaluation::LambadaTarget target : wanted(flags)) {
    MEG_ASSIGN_OR_RETURN(auto examples,
                         evaluation::lambada_examples(texts, target, *loaded.tokenizer,
                                                      loaded.sequence_length, flags.valid_data));
    definitions.push_back({.target = target, .examples = std::move(examples), .scores = {}});
  }
  seconds.tokenize = tokenizing.seconds();
  print_line(flags, fmt::format(" > found {} samples.", texts.size()));

  const Stopwatch scoring;
  MEG_RETURN_IF_ERROR(score(flags, loaded, ranks, definitions));
  seconds.score = scoring.seconds();
  const Definition& chosen = definitions.front();
  int64_t tokens = 0;
  for (const evaluation::LambadaExample& example : chosen.examples) {
    tokens += static_cast<int64_t>(example.tokens.size()) - 1;
  }
  print_rate(flags, static_cast<int64_t>(texts.size()), "examples", tokens, seconds.score);
  if (flags.output.has_value()) MEG_RETURN_IF_ERROR(write_results(*flags.output, chosen));
  const evaluation::LambadaSummary summary =
      evaluation::summarize_lambada(chosen.examples, chosen.scores);
  print_results(flags, fmt::format("number correct: {:.4E} | total examples: {:.4E} | "
                                   "avg accuracy: {:.4E}",
                                   static_cast<double>(summary.correct),
                                   static_cast<double>(summary.examples), summary.accuracy));
  if (flags.json) print_json(json_of(flags, loaded, definitions, seconds));
  return Status();
}

}  // namespace meg::tools
