#include "libmeg/tokenizer/inspect/python_check.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "libmeg/megatron/megatron_version.h"
#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"
#include "libmeg/tokenizer/words/internal/pattern_scan.h"

namespace meg::tokenizer {
namespace {

/// text (UTF-8) as a Python string; control characters are escaped, so that it is one line.
std::string python_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

/// text as one word of a POSIX shell.
std::string shell_word(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

using Answer = Result<std::string>;

// Python statements that set `ids` to those of `text`.

Answer ask_gpt2(const TokenizerOptions& options) {
  const bool takes_specials =
      options.version && options.version->gpt2_special_tokens_in_text && !options.legacy_tokenizer;
  return fmt::format(
      "import tokenizers; t = tokenizers.ByteLevelBPETokenizer({}, {}); {}ids = "
      "t.encode(text).ids",
      python_string(options.vocab_file), python_string(options.merge_file),
      takes_specials ? "t.add_special_tokens([\"<|endoftext|>\"]); " : "");
}

Answer ask_hugging_face(const TokenizerOptions& options) {
  const std::filesystem::path path(options.tokenizer_model);
  const std::string_view adds = includes_special_tokens(options) ? "True" : "False";
  if (std::filesystem::exists(path / "tokenizer_config.json")) {
    return fmt::format(
        "import transformers; ids = transformers.AutoTokenizer.from_pretrained({})"
        ".encode(text, add_special_tokens={})",
        python_string(path.string()), adds);
  }
  const bool is_folder = std::filesystem::is_directory(path);
  return fmt::format(
      "import tokenizers; ids = tokenizers.Tokenizer.from_file({}).encode(text, "
      "add_special_tokens={}).ids",
      python_string((is_folder ? path / "tokenizer.json" : path).string()), adds);
}

Answer ask_tiktoken(const TokenizerOptions& options) {
  const std::string name = options.tiktoken_pattern.empty() ? "v2" : options.tiktoken_pattern;
  const int64_t specials = options.tiktoken_num_special_tokens;
  const bool is_list = options.tokenizer_model.ends_with(".json");
  return fmt::format(
      "import base64, json, tiktoken; file = open({}, encoding=\"utf-8\"); ranks = "
      "{{base64.b64decode"
      "(word): int(rank) for word, rank in {}}}; ids = [{} + rank for rank in tiktoken.Encoding("
      "\"check\", pat_str={}, mergeable_ranks={{token: rank for token, rank in ranks.items() if "
      "rank "
      "< {}}}, special_tokens={{}}).encode_ordinary(text)]",
      python_string(options.tokenizer_model),
      is_list ? "((entry[\"token_bytes\"], entry[\"rank\"]) for entry in json.load(file))"
              : "map(str.split, file)",
      specials, python_string(find_pattern_by_name(name)->regex),
      options.vocab_size.value_or(kTiktokenVocabSize) - specials);
}

Answer ask_sentencepiece(const TokenizerOptions& options) {
  const megatron::MegatronVersion version =
      options.version.value_or(megatron::newest_megatron_version());
  const bool is_older = options.legacy_tokenizer || version.core_tokenizers == 0;
  if (is_older && options.tokenizer_type != "GPTSentencePieceTokenizer") {
    return make_error(StatusCode::kUnsupported,
                      "{}: Megatron's older class adds tokens that the package does not know",
                      options.tokenizer_type);
  }
  return fmt::format(
      "import sentencepiece; ids = sentencepiece.SentencePieceProcessor(model_file={})"
      ".encode(text)",
      python_string(options.tokenizer_model));
}

Answer ask_word_piece(const TokenizerOptions& options) {
  const bool lowers = options.tokenizer_type == "BertWordPieceLowerCase";
  const auto core = core_options(options);
  return fmt::format(
      "import tokenizers; t = tokenizers.BertWordPieceTokenizer({}, lowercase={}); {}ids = "
      "t.encode(text, add_special_tokens={}).ids",
      python_string(options.vocab_file), lowers ? "True" : "False",
      core && !lowers ? "t.add_special_tokens([f\"<extra_id_{i}>\" for i in range(100)]); " : "",
      core && core->include_special_tokens ? "True" : "False");
}

Answer ask_numbers(const TokenizerOptions&) {
  return std::string("ids = [int(number) for number in text.split()]");
}

struct Asker {
  std::string_view type;
  Answer (*ask)(const TokenizerOptions& options);
};

constexpr Asker kAskers[] = {{"GPT2BPETokenizer", ask_gpt2},
                             {"HuggingFaceTokenizer", ask_hugging_face},
                             {"TikTokenizer", ask_tiktoken},
                             {"SentencePieceTokenizer", ask_sentencepiece},
                             {"GPTSentencePieceTokenizer", ask_sentencepiece},
                             {"Llama2Tokenizer", ask_sentencepiece},
                             {"BertWordPieceLowerCase", ask_word_piece},
                             {"BertWordPieceCase", ask_word_piece},
                             {"NullTokenizer", ask_numbers}};

}  // namespace

Result<std::string> python_check(const TokenizerOptions& options, std::string_view text,
                                 std::span<const int32_t> ids) {
  for (const auto& [type, ask] : kAskers) {
    if (type != options.tokenizer_type) continue;
    MEG_ASSIGN_OR_RETURN(const std::string asked, ask(options));
    const std::string program = fmt::format(
        "text = {}; {}; print(\"equal\" if list(ids) == [{}] else f\"different: {{list(ids)}}\")",
        python_string(text), asked, fmt::join(ids, ", "));
    // Printed for the user to run: the package that Megatron itself calls is the judge of our ids.
    return "python3 -c " + shell_word(program);
  }
  return make_error(StatusCode::kUnsupported, "`tokenizer_type` {}: no Python package is known",
                    options.tokenizer_type);
}

}  // namespace meg::tokenizer
