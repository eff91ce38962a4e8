#include "libmeg/tokenizer/files/internal/huggingface/tokenizer_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "libmeg/tokenizer/words/internal/pattern_scan.h"

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

/// Named where no file names them; empty: none.
struct DefaultTokens {
  std::string_view bos, eos, unk, pad;
};

constexpr DefaultTokens kGpt2Tokens = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", ""};

/// A class without a function is not compared.
struct RebuiltClass {
  std::string_view name;  ///< Without "Fast" at its end.
  SameParts same_parts = nullptr;
  DefaultTokens tokens = {};
};

/// Those of transformers 5.23, models/*/tokenization_*.py, that models of text have.
constexpr auto kRebuilt = std::to_array<RebuiltClass>({
    {"AlbertTokenizer"},
    {"BartTokenizer"},
    {"BarthezTokenizer"},
    {"BertTokenizer"},
    {"BigBirdTokenizer"},
    {"BlenderbotTokenizer"},
    {"CamembertTokenizer"},
    {"CodeGenTokenizer", as_gpt2, kGpt2Tokens},
    {"CodeLlamaTokenizer"},
    {"CohereTokenizer"},
    {"DebertaTokenizer"},
    {"DebertaV2Tokenizer"},
    {"FunnelTokenizer"},
    {"GPT2Tokenizer", as_gpt2, kGpt2Tokens},
    {"GPTNeoXTokenizer",
     as_gpt_neox,
     {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<|padding|>"}},
    {"GemmaTokenizer"},
    {"HerbertTokenizer"},
    {"LlamaTokenizer", as_llama, {"<s>", "</s>", "<unk>", ""}},
    {"MBart50Tokenizer"},
    {"MBartTokenizer"},
    {"MPNetTokenizer"},
    {"NllbTokenizer"},
    {"OpenAIGPTTokenizer"},
    {"PegasusTokenizer"},
    {"Qwen2Tokenizer", as_qwen2, {"", "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {"Qwen3_5Tokenizer"},
    {"ReformerTokenizer"},
    {"RemBertTokenizer"},
    {"RobertaTokenizer"},
    {"SplinterTokenizer"},
    {"T5Tokenizer"},
    {"WhisperTokenizer"},
    {"XGLMTokenizer"},
    {"XLMRobertaTokenizer"},
    {"XLNetTokenizer"},
});

/// The class that takes a tokenizer.json as it is.
constexpr std::string_view kAsIs = "TokenizersBackend";

struct ModelClass {
  std::string_view model_type, name;
  bool whatever_files_name = false;  ///< transformers knows that they name a wrong one.
};

/// Those of transformers 5.23, models/auto/tokenization_auto.py, that models of text have.
constexpr auto kModels = std::to_array<ModelClass>({
    {"arctic", kAsIs},
    {"bart", "RobertaTokenizer"},
    {"bert", "BertTokenizer"},
    {"codegen", "GPT2Tokenizer"},
    {"cohere", "CohereTokenizer"},
    {"cohere2", "CohereTokenizer"},
    {"dbrx", "GPT2Tokenizer"},
    {"electra", "BertTokenizer"},
    {"ernie4_5", kAsIs},
    {"ernie4_5_moe", kAsIs},
    {"falcon_mamba", "GPTNeoXTokenizer"},
    {"flex_olmo", kAsIs},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},
    {"gemma3", "GemmaTokenizer"},
    {"gemma3_text", "GemmaTokenizer"},
    {"gemma3n", "GemmaTokenizer"},
    {"gemma3n_text", "GemmaTokenizer"},
    {"glm", kAsIs},
    {"glm4", kAsIs},
    {"glm4_moe", kAsIs},
    {"glm4_moe_lite", kAsIs},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_bigcode", kAsIs},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"granite", kAsIs},
    {"granitemoe", kAsIs},
    {"granitemoehybrid", kAsIs},
    {"granitemoeshared", kAsIs},
    {"internlm2", kAsIs},
    {"internlm3", kAsIs},
    {"jamba", kAsIs},
    {"kimi_linear", kAsIs},
    {"mamba", "GPTNeoXTokenizer"},
    {"mamba2", "GPTNeoXTokenizer"},
    {"mimo_v2_flash", kAsIs},
    {"minicpm3", kAsIs},
    {"minimax_m2", kAsIs},
    {"ministral", kAsIs},
    {"ministral3", kAsIs},
    {"mistral", kAsIs},
    {"mistral3", kAsIs},
    {"mixtral", kAsIs},
    {"mpt", "GPTNeoXTokenizer"},
    {"nemotron", kAsIs},
    {"olmo", "GPTNeoXTokenizer"},
    {"olmo2", kAsIs},
    {"olmo3", kAsIs},
    {"olmo_hybrid", kAsIs},
    {"olmoe", "GPTNeoXTokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"persimmon", kAsIs},
    {"phi", "GPT2Tokenizer"},
    {"phi3", kAsIs},
    {"phimoe", kAsIs},
    {"qwen2", "Qwen2Tokenizer", true},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_5", "Qwen3_5Tokenizer", true},
    {"qwen3_5_moe", "Qwen3_5Tokenizer", true},
    {"qwen3_5_moe_text", "Qwen3_5Tokenizer", true},
    {"qwen3_5_text", "Qwen3_5Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"qwen3_next", "Qwen2Tokenizer"},
    {"recurrent_gemma", "GemmaTokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"rwkv", "GPTNeoXTokenizer"},
    {"stablelm", kAsIs},
    {"starcoder2", "GPT2Tokenizer"},
    {"t5", "T5Tokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
});

std::string_view without_fast(std::string_view name) {
  constexpr std::string_view kFast = "Fast";
  return name.ends_with(kFast) ? name.substr(0, name.size() - kFast.size()) : name;
}

/// Null where the class takes a tokenizer.json as it is.
const RebuiltClass* find_rebuilt(const TokenizerConfig& config) {
  const std::string_view name = without_fast(config.tokenizer_class);
  const auto* const row =
      std::find_if(kRebuilt.begin(), kRebuilt.end(),
                   [&](const RebuiltClass& known) { return known.name == name; });
  return row == kRebuilt.end() ? nullptr : row;
}

}  // namespace

std::string choose_tokenizer_class(std::string_view named, std::string_view model_type) {
  const auto* const row =
      std::find_if(kModels.begin(), kModels.end(),
                   [&](const ModelClass& known) { return known.model_type == model_type; });
  if (row == kModels.end()) return std::string(named);
  const bool is_models = named.empty() || row->whatever_files_name || row->name == kAsIs;
  return std::string(is_models ? row->name : named);
}

void name_default_tokens(const TokenizerJson& file, TokenizerConfig& config) {
  const RebuiltClass* const row = find_rebuilt(config);
  // Llama's class leaves files with bytes, which are Llama-3's, as they are.
  if (row == nullptr || (row->same_parts == as_llama && file.pre_tokenizer.byte_level)) return;
  for (const auto& [name, text] :
       {std::pair{"bos_token", row->tokens.bos}, std::pair{"eos_token", row->tokens.eos},
        std::pair{"unk_token", row->tokens.unk}, std::pair{"pad_token", row->tokens.pad}}) {
    config.name_default_token(name, text);
  }
}

std::optional<std::string> check_tokenizer_class(const TokenizerJson& file,
                                                 const TokenizerConfig& config,
                                                 const std::string& name) {
  const RebuiltClass* const row = find_rebuilt(config);
  if (row == nullptr) return std::nullopt;
  if (row->same_parts != nullptr && row->same_parts(file)) return std::nullopt;
  return fmt::format(
      "{}: normalizer and pre-tokenizer are those of this file, as in transformers 4; transformers "
      "5 has its own for tokenizer_class {}, so some ids may differ",
      name, config.tokenizer_class);
}

}  // namespace meg::tokenizer
