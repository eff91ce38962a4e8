// Scores continuations after their contexts with a trained model.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/evaluation/continuation.h"
#include "libmeg/evaluation/scoring.h"
#include "libmeg/io/atomic_file.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/inference_flags.h"
#include "tools/common/model_run.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/text_lines.h"

namespace meg::tools {
namespace {

using evaluation::Continuation;
using evaluation::SequenceScore;
using nlohmann::json;
using nlohmann::ordered_json;

struct ScoreFlags {
  InferenceFlags inference;
  std::string input = "-";
  std::optional<std::string> output;
  bool logprobs = false;
};

void declare_flags(Flags& flags, ScoreFlags& score) {
  flags.group("Scoring");
  flags.value("--input", &score.input, "FILE",
              "JSON lines with context and continuation, each a text or a list of ids; - is "
              "standard input");
  flags.value("--output", &score.output, "FILE",
              "file to write the scores to, as JSON lines; default: standard output");
  flags.toggle(
      "--logprobs", &score.logprobs,
      "give each token of a continuation with its log probability and the most likely one");
  declare_inference_flags(flags, megatron::ArgumentFamily::kTraining, {}, score.inference);
}

Result<std::vector<int32_t>> ids_of(const json& list) {
  std::vector<int32_t> ids;
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return make_error(StatusCode::kInvalidArgument, "expected a list of ids, found {} in it",
                        id.dump(-1, ' ', true, json::error_handler_t::replace));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

/// One line of the input.
Result<Continuation> read_line(const std::string& line, const tokenizer::Tokenizer& tokenizer,
                               tokenizer::TokenEncoder& encoder) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Status(StatusCode::kCorruption, "expected a JSON object, found something else");
  }
  for (const char* key : {"context", "continuation"}) {
    if (object.contains(key) && (object[key].is_string() || object[key].is_array())) continue;
    return make_error(StatusCode::kCorruption, "{}: expected a text or a list of ids, found {}",
                      key, object.contains(key) ? object[key].type_name() : "none");
  }
  const json& context = object["context"];
  const json& continuation = object["continuation"];
  if (context.is_string() != continuation.is_string()) {
    return Status(StatusCode::kCorruption,
                  "context and continuation: expected two texts or two lists of ids, found one of "
                  "each");
  }
  if (context.is_string()) {
    return evaluation::tokenize_continuation(context.get_ref<const std::string&>(),
                                             continuation.get_ref<const std::string&>(), tokenizer,
                                             encoder);
  }
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> before, ids_of(context));
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> after, ids_of(continuation));
  return evaluation::continuation_of_ids(std::move(before), std::move(after), tokenizer);
}

Result<std::vector<Continuation>> read_input(const ScoreFlags& flags,
                                             const app::LoadedModel& loaded) {
  MEG_ASSIGN_OR_RETURN(TextLines lines, TextLines::open(flags.input));
  const auto encoder = loaded.tokenizer->new_encoder(DType::kInt32);
  std::vector<Continuation> texts;
  std::string line;
  for (int64_t number = 1;; ++number) {
    MEG_ASSIGN_OR_RETURN(const bool more, lines.next(line));
    if (!more) break;
    Result<Continuation> text = read_line(line, *loaded.tokenizer, *encoder);
    const Status fits =
        text ? evaluation::cut_context(*text, loaded.sequence_length) : text.status();
    if (!fits.ok()) return fits.with_prefix(fmt::format("{}: line {}", lines.name(), number));
    texts.push_back(*std::move(text));
  }
  if (!texts.empty()) return texts;
  return make_error(StatusCode::kInvalidArgument, "{}: expected JSON lines, found an empty file",
                    lines.name());
}

ordered_json json_of(size_t index, const Continuation& text, const SequenceScore& score,
                     bool logprobs) {
  const std::span<const int32_t> targets =
      std::span(text.tokens).last(static_cast<size_t>(text.targets));
  ordered_json object;
  object["index"] = index;
  object["logprob"] = score.logprob();
  object["is_greedy"] = std::ranges::equal(targets, score.predicted);
  object["tokens"] = text.targets;
  object["context_tokens"] = text.context();
  object["cut_tokens"] = text.cut;
  if (!logprobs) return object;
  object["ids"] = targets;
  object["logprobs"] = score.logprobs;
  object["predicted"] = score.predicted;
  return object;
}

Status write_lines(const ScoreFlags& flags, const std::string& lines) {
  if (!flags.output) {
    fmt::print("{}", lines);
    return Status();
  }
  note_new_folders(*flags.output);
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(*flags.output));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(lines))));
  MEG_RETURN_IF_ERROR(file.commit());
  note(written_text(*flags.output, {&*flags.output, 1}));
  return Status();
}

Status score(const ScoreFlags& flags, app::LoadedModel& loaded,
             const parallel::ParallelState& ranks) {
  MEG_ASSIGN_OR_RETURN(const std::vector<Continuation> texts, read_input(flags, loaded));
  std::vector<evaluation::ScoringSequence> sequences;
  int64_t tokens = 0, cut = 0;
  for (const Continuation& text : texts) {
    sequences.push_back({.tokens = text.tokens,
                         .targets = text.targets,
                         .text = std::ssize(sequences),
                         .first_token = text.cut});
    tokens += std::ssize(text.tokens) - 1;
    cut += text.cut > 0 ? 1 : 0;
  }
  if (cut > 0) {
    note(fmt::format("{} of {} contexts are cut on the left to the sequence length {}", cut,
                     texts.size(), loaded.sequence_length));
  }
  const Stopwatch scoring;
  ProgressBar bar(0);
  evaluation::ScoringOptions options;
  options.vocab_size = loaded.tokenizer->vocab_size();
  options.batch_sequences = flags.inference.micro_batch_size;
  options.progress = bar.callback();
  const auto scores = evaluation::score_sequences(loaded.model, sequences, options, ranks);
  bar.clear();
  if (!scores) return scores.error().with_prefix(flags.input);
  const double seconds = scoring.seconds();
  std::string lines;
  for (size_t i = 0; i < texts.size(); ++i) {
    lines += json_of(i, texts[i], (*scores)[i], flags.logprobs).dump() + "\n";
  }
  MEG_RETURN_IF_ERROR(write_lines(flags, lines));
  note(fmt::format("scored {} continuations in {:.2f} s: {:.1f} continuations/s, {:.0f} tokens/s",
                   texts.size(), seconds, static_cast<double>(texts.size()) / seconds,
                   static_cast<double>(tokens) / seconds));
  return Status();
}

int main(int argc, const char* const* argv) {
  ScoreFlags score_flags;
  Flags flags("score",
              "gives the log probabilities of continuations after their contexts, and whether they "
              "are the most likely ones.");
  flags.examples(
      {"score --input examples.jsonl --output scores.jsonl --load checkpoints "
       "--vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
       "score --input examples.jsonl --logprobs --load checkpoints --bf16 --vocab-file "
       "gpt2-vocab.json --merge-file gpt2-merges.txt"});
  declare_flags(flags, score_flags);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  const Status usage = finish_inference_flags(flags, score_flags.inference);
  if (!usage.ok()) return fail_usage(usage);
  const auto lead = [&](app::LoadedModel& loaded, const parallel::ParallelState& ranks) {
    return score(score_flags, loaded, ranks);
  };
  return run_model(score_flags.inference, {.lead = lead, .follow = evaluation::follow_scoring});
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
