#include <algorithm>
#include <limits>

#include "tools/common/report.h"
#include "tools/generate/generate.h"

namespace meg::tools {
namespace {

constexpr int64_t kMaxBeams = 1024;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kMaxReal = std::numeric_limits<double>::max();
constexpr std::string_view kNoServer = "nothing is served here";

void declare_texts(Flags& flags, GenerateFlags& generate) {
  flags.group("Prompts and lengths");
  flags.list("--prompts", &generate.prompts, "TEXT...", "prompts to complete");
  flags.value("--prompt-file", &generate.prompt_file, "FILE",
              "prompts to complete: one per line, or the \"text\" of each line of a .jsonl file; "
              "- is standard input");
  flags
      .value("--prompt-file-num-truncate", &generate.prompt_file_num_truncate, "N",
             "read only the first N prompts of --prompt-file")
      .range(1, kMost);
  flags
      .value("--num-samples", &generate.num_samples, "N",
             "number of texts to generate without a prompt")
      .range(1, kMost);
  flags.toggle("--interactive", &generate.interactive,
               "read prompts from standard input until `stop`");
  flags
      .value("--prompt-tokens", &generate.prompt_tokens, "N",
             "keep only the first N tokens of each prompt")
      .range(1, kMost);
  flags
      .value(
          "--tokens-to-generate", &generate.tokens_to_generate, "N",
          "maximum number of new tokens (default: 64, or as many as the model has positions for)")
      .range(0, kMost);
  flags
      .value("--num-tokens-to-generate", &generate.tokens_to_generate, "N",
             "same as --tokens-to-generate; the name in Megatron's offline programs")
      .range(0, kMost);
  flags
      .value("--out-seq-length", &generate.out_seq_length, "N",
             "maximum length including the prompt, instead of --tokens-to-generate")
      .range(1, kMost);
  flags.toggle("--ignore-eod", &generate.ignore_eod, "do not stop at an end-of-document token");
  flags.toggle("--stop-on-eol", &generate.stop_on_eol, "stop at a newline");
  flags.toggle("--stop-on-double-eol", &generate.stop_on_double_eol, "stop at an empty line");
  flags.group("Sampling");
  flags.toggle("--greedy", &generate.greedy,
               "always take the most likely token, same as --top_k 1");
  flags.value("--temperature", &generate.sampling.temperature, "T", "divide the logits by T")
      .real_range(std::numeric_limits<double>::min(), kMaxReal);
  flags
      .value("--top_k", &generate.sampling.top_k, "K",
             "sample from the K most likely tokens; 0: from all")
      .range(0, kMost);
  flags
      .value("--top_p", &generate.sampling.top_p, "P",
             "sample from the most likely tokens whose probabilities sum to P; 0: from all")
      .real_range(0, 1);
  flags
      .value("--top_p_decay", &generate.sampling.top_p_decay, "F",
             "multiply top_p by F after each token; 0: keep it")
      .real_range(0, 1);
  flags
      .value("--top_p_bound", &generate.sampling.top_p_bound, "P",
             "lower bound of a decaying top_p")
      .real_range(0, 1);
  flags
      .value("--no-repeat-ngram-size", &generate.no_repeat_ngram_size, "N",
             "never repeat a run of N tokens; 0: off")
      .range(0, kMost);
  flags.toggle("--prevent-newline-after-colon", &generate.prevent_newline_after_colon,
               "do not generate a newline after a colon");
  flags.group("Beam search");
  flags
      .value("--beam-width", &generate.beam_width, "N",
             "search for the N most likely texts instead of sampling one")
      .range(1, kMaxBeams);
  flags
      .value("--length-penalty", &generate.length_penalty, "X",
             "exponent of the length by which a text's log probability is divided")
      .real_range(-serving::kMaxLengthPenalty, serving::kMaxLengthPenalty);
  flags.group("Output");
  flags.value("--output", &generate.output, "FILE",
              "file to write the JSON lines to (default: standard output)");
  flags.toggle("--logprobs", &generate.logprobs,
               "include the log probabilities of all tokens but the first");
  flags.toggle("--return-log-probs", &generate.logprobs, "same as --logprobs");
}

/// What would change nothing without another flag, or raise top_p where it should only keep it up.
Status check_dependent_flags(const GenerateFlags& generate) {
  const serving::SamplingOptions& sampling = generate.sampling;
  if ((sampling.top_p_decay > 0 || sampling.top_p_bound > 0) && sampling.top_p == 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--top_p_decay and --top_p_bound: expected --top_p, found none");
  }
  if (sampling.top_p_bound > 0 && sampling.top_p_decay == 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--top_p_bound: expected --top_p_decay, found none");
  }
  if (sampling.top_p_bound > sampling.top_p) {
    return make_error(StatusCode::kInvalidArgument,
                      "--top_p_bound: expected at most the value of --top_p, {}, found {}",
                      sampling.top_p, sampling.top_p_bound);
  }
  if (generate.length_penalty != 1 && !generate.beam_width) {
    return Status(StatusCode::kInvalidArgument,
                  "--length-penalty: expected --beam-width, found none");
  }
  return Status();
}

Status check_usage(const Flags& flags, GenerateFlags& generate) {
  MEG_RETURN_IF_ERROR(finish_inference_flags(flags, generate.inference));
  const int sources = (generate.prompts.empty() ? 0 : 1) + (generate.prompt_file ? 1 : 0) +
                      (generate.num_samples ? 1 : 0) + (generate.interactive ? 1 : 0);
  if (sources != 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "--prompts, --prompt-file, --num-samples and --interactive: expected one of "
                      "them, found {}",
                      sources);
  }
  if (generate.prompt_file_num_truncate && !generate.prompt_file) {
    return Status(StatusCode::kInvalidArgument,
                  "--prompt-file-num-truncate: expected --prompt-file, found none");
  }
  if (generate.tokens_to_generate && generate.out_seq_length) {
    return Status(StatusCode::kInvalidArgument,
                  "--tokens-to-generate and --out-seq-length: expected one of them at most");
  }
  MEG_RETURN_IF_ERROR(check_dependent_flags(generate));
  if (generate.sampling.top_k > 0 && generate.sampling.top_p > 0) {
    return Status(StatusCode::kInvalidArgument,
                  "--top_k and --top_p: expected one of them at most");
  }
  const bool draws = generate.sampling.top_k > 1 || generate.sampling.top_p > 0;
  if (generate.greedy && draws) {
    return Status(StatusCode::kInvalidArgument,
                  "--greedy: cannot be combined with --top_k or --top_p");
  }
  const bool samples = generate.greedy || draws || generate.sampling.top_k > 0 ||
                       generate.sampling.temperature != 1 || generate.stop_on_eol ||
                       generate.stop_on_double_eol || generate.logprobs;
  if (generate.beam_width && samples) {
    return Status(StatusCode::kInvalidArgument,
                  "--beam-width: cannot be combined with flags of sampling, --stop-on-eol, "
                  "--stop-on-double-eol or --logprobs");
  }
  if (generate.interactive && (generate.output || generate.logprobs)) {
    return Status(StatusCode::kInvalidArgument,
                  "--interactive: cannot be combined with --output or --logprobs");
  }
  return Status();
}

}  // namespace

std::optional<int> parse_generate_flags(int argc, const char* const* argv,
                                        GenerateFlags& generate) {
  Flags flags("generate", "generates text from prompts with a trained GPT model.");
  flags.usage("{--prompts TEXT... | --prompt-file FILE | --num-samples N | --interactive}");
  flags.examples(
      {"generate --load checkpoints --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
       "--prompt-file prompts.txt --tokens-to-generate 64 --top_p 0.9 --output texts.jsonl",
       "generate --load checkpoints --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
       "--num-samples 5 --top_k 40",
       "generate --load checkpoints --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
       "--prompts 'And he said' --greedy"});
  declare_texts(flags, generate);
  declare_inference_flags(flags, megatron::ArgumentFamily::kTextGeneration,
                          {{"host", kNoServer},
                           {"port", kNoServer},
                           {"max_batch_size", "the texts do not depend on it"}},
                          generate.inference);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (const Status usage = check_usage(flags, generate); !usage.ok()) return fail_usage(usage);
  if (generate.greedy) generate.sampling.top_k = 1;
  return std::nullopt;
}

serving::GenerationRequest request_of(const GenerateFlags& flags, const app::LoadedModel& loaded,
                                      std::vector<int32_t> prompt, int64_t number) {
  serving::GenerationRequest request;
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
