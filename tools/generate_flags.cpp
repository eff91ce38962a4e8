#include <algorithm>
#include <limits>

#include "tools/common/report.h"
#include "tools/generate.h"

namespace meg::tools {
namespace {

constexpr int kUsageError = 2;
constexpr int64_t kMostBeams = 1024;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kMostReal = std::numeric_limits<double>::max();

void declare_texts(Flags& flags, GenerateFlags& generate) {
  flags.group("Texts");
  flags.value("--prompts", &generate.prompts, "FILE",
              "goes on with each line, or with each \"text\" of a .jsonl file");
  flags.value("--num-samples", &generate.num_samples, "N", "texts that begin with nothing")
      .range(1, kMost);
  flags.toggle("--interactive", &generate.interactive, "asks for prompts; `stop` ends it");
  flags
      .value("--prompt-tokens", &generate.prompt_tokens, "N",
             "of a prompt that are kept, its first")
      .range(1, kMost);
  flags
      .value("--tokens-to-generate", &generate.tokens_to_generate, "N",
             "most tokens behind a prompt; else 64, or what the model has positions for")
      .range(0, kMost);
  flags
      .value("--out-seq-length", &generate.out_seq_length, "N",
             "the same with the prompt counted in")
      .range(1, kMost);
  flags.toggle("--ignore-eod", &generate.ignore_eod, "an end of document does not end a text");
  flags.toggle("--stop-on-eol", &generate.stop_on_eol, "a newline ends a text");
  flags.toggle("--stop-on-double-eol", &generate.stop_on_double_eol, "an empty line ends a text");
  flags.group("Sampling");
  flags.toggle("--greedy", &generate.greedy, "always the most likely token, as --top_k 1");
  flags.value("--temperature", &generate.sampling.temperature, "T", "divides the logits")
      .real_range(std::numeric_limits<double>::min(), kMostReal);
  flags.value("--top_k", &generate.sampling.top_k, "K", "among the K most likely; 0: all")
      .range(0, kMost);
  flags
      .value("--top_p", &generate.sampling.top_p, "P",
             "among the most likely that have P of the probability; 0: all")
      .real_range(0, 1);
  flags
      .value("--top_p_decay", &generate.sampling.top_p_decay, "F",
             "top_p is multiplied by it after each token; 0: it stays")
      .real_range(0, 1);
  flags.value("--top_p_bound", &generate.sampling.top_p_bound, "P", "what top_p does not pass")
      .real_range(0, 1);
  flags
      .value("--no-repeat-ngram-size", &generate.no_repeat_ngram_size, "N",
             "no run of N tokens comes twice; 0: off")
      .range(0, kMost);
  flags.toggle("--prevent-newline-after-colon", &generate.prevent_newline_after_colon,
               "no newline behind a colon");
  flags.group("Beam search");
  flags
      .value("--beam-width", &generate.beam_width, "N",
             "looks for the N most likely texts instead of drawing one")
      .range(1, kMostBeams);
  flags
      .value("--length-penalty", &generate.length_penalty, "X",
             "exponent of the length that a text's log probability is divided by")
      .real_range(-inference::kMostLengthPenalty, inference::kMostLengthPenalty);
  flags.group("Output");
  flags.value("--output", &generate.output, "FILE", "JSON lines go here, else to standard output");
  flags.toggle("--logprobs", &generate.logprobs, "log probabilities of all tokens but the first");
}

Status check_usage(GenerateFlags& generate) {
  MEG_RETURN_IF_ERROR(finish_inference_flags(generate.inference));
  const int sources =
      (generate.prompts ? 1 : 0) + (generate.num_samples ? 1 : 0) + (generate.interactive ? 1 : 0);
  if (sources != 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "--prompts, --num-samples and --interactive: expected one of them, found {}",
                      sources);
  }
  if (generate.tokens_to_generate && generate.out_seq_length) {
    return Status(StatusCode::kInvalidArgument,
                  "--tokens-to-generate and --out-seq-length: expected one of them at most");
  }
  if (generate.sampling.top_k > 0 && generate.sampling.top_p > 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--top_k and --top_p: expected one of them at most");
  }
  const bool draws = generate.sampling.top_k > 1 || generate.sampling.top_p > 0;
  if (generate.greedy && draws) {
    return Status(StatusCode::kInvalidArgument,
                  "--greedy: expected neither --top_k nor --top_p beside it");
  }
  const bool samples = generate.greedy || draws || generate.sampling.top_k > 0 ||
                       generate.sampling.temperature != 1 || generate.stop_on_eol ||
                       generate.stop_on_double_eol || generate.logprobs;
  if (generate.beam_width && samples) {
    return Status(StatusCode::kInvalidArgument,
                  "--beam-width: expected no flag of sampling, neither --stop-on-eol nor "
                  "--stop-on-double-eol nor --logprobs beside it");
  }
  if (generate.interactive && (generate.output || generate.logprobs)) {
    return Status(StatusCode::kInvalidArgument,
                  "--interactive: expected neither --output nor --logprobs beside it");
  }
  return Status();
}

}  // namespace

std::optional<int> parse_generate_flags(int argc, const char* const* argv,
                                        GenerateFlags& generate) {
  Flags flags("generate", "goes on with texts as a trained GPT model would.");
  declare_texts(flags, generate);
  declare_inference_flags(flags, megatron::ArgumentFamily::kTextGeneration, generate.inference);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (const Status usage = check_usage(generate); !usage.ok()) {
    fail(usage);
    return kUsageError;
  }
  if (generate.greedy) generate.sampling.top_k = 1;
  return std::nullopt;
}

inference::GenerationRequest request_of(const GenerateFlags& flags, const LoadedModel& loaded,
                                        std::vector<int32_t> prompt, int64_t number) {
  inference::GenerationRequest request;
  // A prompt that leaves no position is refused rather than given back as it came.
  const int64_t room = std::max<int64_t>(1, loaded.sequence_length - std::ssize(prompt));
  request.tokens_to_generate =
      flags.tokens_to_generate.value_or(std::min(request.tokens_to_generate, room));
  if (flags.out_seq_length) {
    request.tokens_to_generate = std::max<int64_t>(0, *flags.out_seq_length - std::ssize(prompt));
  }
  request.prompt = std::move(prompt);
  request.sampling = flags.sampling;
  request.sampling.seed = static_cast<uint64_t>(flags.inference.seed + number);
  request.stop = {.on_eod = !flags.ignore_eod,
                  .on_double_eol = flags.stop_on_double_eol,
                  .on_eol = flags.stop_on_eol};
  request.prevent_newline_after_colon = flags.prevent_newline_after_colon;
  request.no_repeat_ngram_size = flags.no_repeat_ngram_size;
  request.logprobs = flags.logprobs;
  if (flags.beam_width) {
    request.beam = {.beam_width = *flags.beam_width,
                    .num_return_gen = *flags.beam_width,
                    .stop_token = flags.ignore_eod ? -1 : loaded.tokenizer->eod().value_or(-1),
                    .length_penalty = flags.length_penalty};
  }
  return request;
}

}  // namespace meg::tools
