// Generates texts with a trained model. Stands for Megatron-LM tools/generate_samples_gpt.py.

#include "tools/generate/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "libmeg/base/stopwatch.h"
#include "libmeg/generation/generate.h"
#include "libmeg/generation/model_engine.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/text/terminal_text.h"
#include "libmeg/tokenizer/interface/decode_stream.h"
#include "tools/common/byte_size.h"
#include "tools/common/model_run.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/text_lines.h"

namespace meg::tools {
namespace {

using generation::create_generation_engine;
using nlohmann::ordered_json;
using serving::Beam;
using serving::GeneratedText;
using serving::GenerationEngine;
using serving::GenerationRequest;

/// Texts at once where --micro-batch-size does not say.
constexpr int64_t kSlots = 16;

/// text: a GeneratedText or a Beam.
template <class Text>
std::span<const int32_t> made_tokens(const Text& text) {
  return std::span(text.tokens).subspan(text.prompt_size);
}

template <class Text>
Status add_made_tokens(const Text& text, const tokenizer::Tokenizer& tokenizer,
                       ordered_json& object) {
  const std::span<const int32_t> made = made_tokens(text);
  object["ids"] = made;
  MEG_ASSIGN_OR_RETURN(object["text"], tokenizer.decode(made));
  return Status();
}

Result<std::string> json_line(size_t index, const serving::GeneratedText& text,
                              const tokenizer::Tokenizer& tokenizer, bool logprobs) {
  const std::span<const int32_t> prompt = std::span(text.tokens).first(text.prompt_size);
  ordered_json object;
  object["index"] = index;
  object["prompt"] = prompt;
  MEG_ASSIGN_OR_RETURN(object["prompt_text"], tokenizer.decode(prompt));
  MEG_RETURN_IF_ERROR(add_made_tokens(text, tokenizer, object));
  if (logprobs) object["logprobs"] = text.logprobs;
  for (const serving::Beam& beam : text.beams) {
    ordered_json& found = object["beams"].emplace_back();
    MEG_RETURN_IF_ERROR(add_made_tokens(beam, tokenizer, found));
    found["score"] = beam.score;
  }
  return object.dump() + '\n';
}

Status write_lines(const std::optional<std::string>& path, const std::string& lines) {
  if (!path) {
    fmt::print("{}", lines);
    return Status();
  }
  note_new_folders(*path);
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(*path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(lines))));
  MEG_RETURN_IF_ERROR(file.commit());
  note(written_text(*path, {&*path, 1}));
  return Status();
}

std::vector<serving::GenerationRequest> requests_of(const GenerateFlags& flags,
                                                    const app::LoadedModel& loaded,
                                                    std::vector<std::vector<int32_t>> prompts) {
  std::vector<serving::GenerationRequest> requests;
  for (std::vector<int32_t>& prompt : prompts) {
    requests.push_back(request_of(flags, loaded, std::move(prompt), std::ssize(requests)));
  }
  return requests;
}

/// Prompts that are not continued are given back as they came.
void warn_of_full_prompts(const GenerateFlags& flags,
                          const std::vector<serving::GenerationRequest>& requests) {
  if (!flags.out_seq_length) return;
  const auto count = std::ranges::count_if(
      requests, [](const auto& request) { return request.tokens_to_generate == 0; });
  if (count == 0) return;
  warning(fmt::format("--out-seq-length {}: {} of {} prompts have as many tokens and get no more",
                      *flags.out_seq_length, count, requests.size()));
}

/// Room for the longest of the texts.
generation::EngineOptions engine_options(const GenerateFlags& flags, const app::LoadedModel& loaded,
                                         const std::vector<serving::GenerationRequest>& requests) {
  int64_t longest = 1;
  for (const serving::GenerationRequest& request : requests) {
    // A prompt may fill the sequence already.
    const int64_t room = loaded.sequence_length - std::ssize(request.prompt);
    longest =
        std::max(longest, std::ssize(request.prompt) + std::min(request.tokens_to_generate, room));
  }
  generation::EngineOptions options;
  options.max_slots = std::min(flags.inference.micro_batch_size.value_or(kSlots),
                               std::max<int64_t>(1, std::ssize(requests)));
  // A cache for the longest text that can come, and not for the model's whole context: many more
  // texts run side by side.
  options.max_sequence_length = requests.empty() ? loaded.sequence_length : longest;
  if (flags.beam_width) {
    // Run as many searches as fill the slots with their texts; the slots themselves stay empty.
    const int64_t searches = std::max<int64_t>(1, options.max_slots / *flags.beam_width);
    options.max_beam_tokens = searches * *flags.beam_width * options.max_sequence_length;
    options.max_slots = 1;
  }
  return options;
}

void print_summary(const std::vector<serving::GeneratedText>& texts, double seconds) {
  size_t read = 0, made = 0;
  for (const serving::GeneratedText& text : texts) {
    read += text.prompt_size;
    made += made_tokens(text).size();
  }
  note(fmt::format("{} prompt{} of {} tokens, {} tokens generated, {:.3f} s, {:.1f} tokens/s",
                   texts.size(), texts.size() == 1 ? "" : "s", read, made, seconds,
                   static_cast<double>(made) / seconds));
}

Status generate_texts(const GenerateFlags& flags, app::LoadedModel& loaded,
                      const parallel::ParallelState& ranks) {
  MEG_ASSIGN_OR_RETURN(auto prompts, read_prompts(flags, *loaded.tokenizer));
  std::vector<serving::GenerationRequest> requests = requests_of(flags, loaded, std::move(prompts));
  warn_of_full_prompts(flags, requests);
  MEG_ASSIGN_OR_RETURN(
      const std::unique_ptr<serving::GenerationEngine> engine,
      generation::create_generation_engine(loaded.model, *loaded.tokenizer,
                                           engine_options(flags, loaded, requests), ranks));
  const Stopwatch watch;
  ProgressBar bar(0);
  const auto show = [&bar](const generation::GenerationProgress& now) {
    bar.update({.documents = now.finished, .tokens = now.tokens, .total_documents = now.texts});
    return true;
  };
  MEG_ASSIGN_OR_RETURN(const std::vector<serving::GeneratedText> texts,
                       generation::generate(*engine, std::move(requests), show));
  bar.clear();
  print_summary(texts, watch.seconds());
  // Lines are written when all are made, so that a file is whole or not there.
  std::string lines;
  for (size_t i = 0; i < texts.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(const std::string line,
                         json_line(i, texts[i], *loaded.tokenizer, flags.logprobs));
    lines += line;
  }
  return write_lines(flags.output, lines);
}

/// Prints a prompt and the text after it while that is made, in whole characters.
class TextPrinter {
 public:
  TextPrinter(const std::string& prompt, const tokenizer::Tokenizer& tokenizer)
      : prompt_(prompt), stream_(tokenizer) {}

  // Bytes of a character may come with several tokens: the stream holds them back until it is
  // whole.
  void add(const generation::GenerationProgress& now) {
    for (const generation::GeneratedToken& made : now.step_tokens) {
      if (const Result<std::string> piece = stream_.add(made.token)) print(*piece);
    }
  }

  /// text: all of it, which begins with what add() has printed.
  void finish(const std::string& text) { print(text.substr(printed_) + "\n\n"); }

 private:
  void print(const std::string& piece) {
    fmt::print("{}{}", std::exchange(prompt_, ""), text::terminal_text(piece));
    std::fflush(stdout);
    printed_ += piece.size();
  }

  std::string prompt_;
  tokenizer::DecodeStream stream_;
  size_t printed_ = 0;  // bytes of the text
};

Status answer(const GenerateFlags& flags, const app::LoadedModel& loaded,
              serving::GenerationEngine& engine, std::string prompt, int64_t number) {
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, loaded.tokenizer->encode(prompt));
  const size_t typed = tokens.size();
  cut_prompt(flags, tokens);
  // What is continued.
  if (tokens.size() < typed) {
    MEG_ASSIGN_OR_RETURN(prompt, loaded.tokenizer->decode(tokens));
  }
  TextPrinter printer(prompt, *loaded.tokenizer);
  const auto show = [&printer](const generation::GenerationProgress& now) {
    printer.add(now);
    return true;
  };
  MEG_ASSIGN_OR_RETURN(
      const std::vector<serving::GeneratedText> texts,
      generation::generate(engine, {request_of(flags, loaded, tokens, number)}, show));
  MEG_ASSIGN_OR_RETURN(const std::string text,
                       loaded.tokenizer->decode(made_tokens(texts.front())));
  printer.finish(text);
  return Status();
}

/// Reports a prompt that cannot be completed; the next one may be.
Status talk(const GenerateFlags& flags, app::LoadedModel& loaded,
            const parallel::ParallelState& ranks) {
  MEG_ASSIGN_OR_RETURN(
      const std::unique_ptr<serving::GenerationEngine> engine,
      generation::create_generation_engine(loaded.model, *loaded.tokenizer,
                                           engine_options(flags, loaded, {}), ranks));
  MEG_ASSIGN_OR_RETURN(TextLines lines, TextLines::open(io::kStandardInput));
  for (int64_t number = 0;; ++number) {
    fmt::print(stderr, "Enter prompt: ");
    std::string prompt;
    MEG_ASSIGN_OR_RETURN(const bool more, lines.next(prompt));
    if (!more || prompt == "stop") return Status();
    const Status status = answer(flags, loaded, *engine, std::move(prompt), number);
    // The loop continues: one prompt that is too long does not end a session. A model that fails
    // does.
    if (!engine->failure().ok()) return status;
    if (!status.ok()) warning(status.message());
  }
}

int main(int argc, const char* const* argv) {
  GenerateFlags flags;
  if (const std::optional<int> code = parse_generate_flags(argc, argv, flags)) return *code;
  const auto lead = [&](app::LoadedModel& loaded, const parallel::ParallelState& ranks) {
    return flags.interactive ? talk(flags, loaded, ranks) : generate_texts(flags, loaded, ranks);
  };
  return run_model(flags.inference, {.lead = lead, .follow = generation::follow_generation_engine});
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
