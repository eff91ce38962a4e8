#include "libmeg/tokenizer/huggingface/internal/tokenizer_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "libmeg/tokenizer/pretokenizer/internal/pattern_scan.h"

namespace meg::tokenizer {
namespace {

/// Whether a file says what transformers 5 gives a class.
using SameParts = bool (*)(const TokenizerJson& file);

bool has_words(const TokenizerJson& file, std::string_view pattern) {
  const PreTokenizer& parts = file.pre_tokenizer;
  return parts.byte_level && !parts.add_prefix_space && parts.steps.empty() &&
         parts.words == pattern;
}

bool as_gpt2(const TokenizerJson& file) {
  return file.normalizer == nullptr && has_words(file, kGpt2Pattern);
}

bool as_gpt_neox(const TokenizerJson& file) {
  return file.normalizer_type == "NFC" && has_words(file, kGpt2Pattern);
}

bool as_qwen2(const TokenizerJson& file) {
  return file.normalizer_type == "NFC" && has_words(file, find_pattern_by_name("qwen2")->regex);
}

/// The rules of `legacy: false`, the default. Llama-3's files, which have bytes, stay as they are.
bool as_llama(const TokenizerJson& file) {
  const std::optional<Metaspace>& metaspace = file.pre_tokenizer.metaspace;
  return file.pre_tokenizer.byte_level ||
         (file.normalizer == nullptr && file.pre_tokenizer.steps.empty() && metaspace &&
          *metaspace == Metaspace{.prepend = Metaspace::Prepend::kFirst, .split = false});
}

/// Without a function: not compared.
struct RebuiltClass {
  std::string_view name;  ///< Without "Fast" at its end.
  SameParts same_parts = nullptr;
};

/// Those of transformers 5.23, models/*/tokenization_*.py, that models of text have.
constexpr auto kRebuilt = std::to_array<RebuiltClass>({
    {"AlbertTokenizer"},
    {"BartTokenizer", as_gpt2},
    {"BarthezTokenizer"},
    {"BertTokenizer"},
    {"BigBirdTokenizer"},
    {"BlenderbotTokenizer"},
    {"CamembertTokenizer"},
    {"CodeGenTokenizer", as_gpt2},
    {"CodeLlamaTokenizer", as_llama},
    {"CohereTokenizer"},
    {"DebertaTokenizer"},
    {"DebertaV2Tokenizer"},
    {"FunnelTokenizer"},
    {"GPT2Tokenizer", as_gpt2},
    {"GPTNeoXTokenizer", as_gpt_neox},
    {"GemmaTokenizer"},
    {"HerbertTokenizer"},
    {"LlamaTokenizer", as_llama},
    {"MBart50Tokenizer"},
    {"MBartTokenizer"},
    {"MPNetTokenizer"},
    {"NllbTokenizer"},
    {"OpenAIGPTTokenizer"},
    {"PegasusTokenizer"},
    {"Qwen2Tokenizer", as_qwen2},
    {"Qwen3_5Tokenizer"},
    {"ReformerTokenizer"},
    {"RemBertTokenizer"},
    {"RobertaTokenizer", as_gpt2},
    {"SplinterTokenizer"},
    {"T5Tokenizer"},
    {"WhisperTokenizer", as_gpt2},
    {"XGLMTokenizer"},
    {"XLMRobertaTokenizer"},
    {"XLNetTokenizer"},
});

struct ModelClass {
  std::string_view model_type, name;
};

/// Those of transformers 5.23, models/auto/tokenization_auto.py, that generate text by a class of
/// kRebuilt.
constexpr auto kModels = std::to_array<ModelClass>({
    {"codegen", "GPT2Tokenizer"},
    {"cohere", "CohereTokenizer"},
    {"cohere2", "CohereTokenizer"},
    {"dbrx", "GPT2Tokenizer"},
    {"falcon_mamba", "GPTNeoXTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gemma3n", "GemmaTokenizer"},
    {"gemma3n_text", "GemmaTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"mamba", "GPTNeoXTokenizer"},
    {"mamba2", "GPTNeoXTokenizer"},
    {"mpt", "GPTNeoXTokenizer"},
    {"olmo", "GPTNeoXTokenizer"},
    {"olmoe", "GPTNeoXTokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"phi", "GPT2Tokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_5", "Qwen3_5Tokenizer"},
    {"qwen3_5_moe", "Qwen3_5Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"qwen3_next", "Qwen2Tokenizer"},
    {"recurrent_gemma", "GemmaTokenizer"},
    {"rwkv", "GPTNeoXTokenizer"},
    {"starcoder2", "GPT2Tokenizer"},
});

std::string_view without_fast(std::string_view name) {
  constexpr std::string_view kFast = "Fast";
  return name.ends_with(kFast) ? name.substr(0, name.size() - kFast.size()) : name;
}

}  // namespace

std::string_view tokenizer_class_of_model(std::string_view model_type) {
  const auto* const row =
      std::find_if(kModels.begin(), kModels.end(),
                   [&](const ModelClass& known) { return known.model_type == model_type; });
  return row == kModels.end() ? std::string_view() : row->name;
}

std::optional<std::string> check_tokenizer_class(const TokenizerJson& file,
                                                 const TokenizerConfig& config,
                                                 const std::string& name) {
  const std::string_view class_name = without_fast(config.tokenizer_class);
  const auto* const row =
      std::find_if(kRebuilt.begin(), kRebuilt.end(),
                   [&](const RebuiltClass& known) { return known.name == class_name; });
  if (row == kRebuilt.end()) return std::nullopt;
  if (row->same_parts != nullptr && row->same_parts(file)) return std::nullopt;
  return fmt::format(
      "{}: normalizer and pre-tokenizer are those of this file, as in transformers 4; transformers "
      "5 has its own for tokenizer_class {}, so some ids may differ",
      name, config.tokenizer_class);
}

}  // namespace meg::tokenizer
