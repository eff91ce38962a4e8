#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "libmeg/preprocess/sources/json_line.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/whitespace.h"
#include "tools/common/report.h"
#include "tools/common/text_lines.h"
#include "tools/generate/generate.h"

namespace meg::tools {
namespace {

/// The texts of a file's lines.
class PromptTexts {
 public:
  explicit PromptTexts(const std::string& name)
      : name_(name), is_json_(name.ends_with(".jsonl")), parser_({"text"}) {}

  Result<std::string> text_of(std::string_view line) {
    if (!is_json_) {
      warn_of_json(line);
      return std::string(line);
    }
    MEG_RETURN_IF_ERROR(parse(line));
    const auto texts = parser_.texts(0);
    if (texts.size() != 1) {
      return make_error(StatusCode::kCorruption, "text: expected one string, found {}",
                        texts.size());
    }
    return std::string(texts.front());
  }

 private:
  Status parse(std::string_view line) {
    // The parser reads a little past the line.
    padded_.assign(line).append(text::kTextPadding, '\0');
    return parser_.parse(std::string_view(padded_).substr(0, line.size()));
  }

  /// A file of JSON lines with another name would give prompts of braces and quotes.
  void warn_of_json(std::string_view line) {
    if (has_warned_ || !text::trimmed(line).starts_with('{') || !parse(line).ok()) return;
    has_warned_ = true;
    warning(name_ +
            ": has JSON lines, which are prompts as they are: for their texts, the file's name "
            "must end in .jsonl");
  }

  const std::string name_;
  bool is_json_, has_warned_ = false;
  preprocess::JsonLineParser parser_;
  std::string padded_;
};

Result<std::vector<int32_t>> tokens_of(const std::string& text,
                                       const tokenizer::Tokenizer& tokenizer) {
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode(text));
  if (!tokens.empty()) return tokens;
  return Status(StatusCode::kInvalidArgument, "expected a text, found none");
}

using Prompts = std::vector<std::vector<int32_t>>;

Result<Prompts> read_texts(const std::vector<std::string>& texts,
                           const tokenizer::Tokenizer& tokenizer) {
  Prompts prompts;
  for (const std::string& text : texts) {
    std::error_code error;
    // A file's name is a text as well, but hardly one that somebody wants continued.
    if (std::filesystem::is_regular_file(text, error)) {
      return make_error(
          StatusCode::kInvalidArgument,
          "--prompts: expected texts, found the name of a file, {}: use --prompt-file", text);
    }
    Result<std::vector<int32_t>> tokens = tokens_of(text, tokenizer);
    if (!tokens.has_value()) {
      return tokens.error().with_prefix(fmt::format("--prompts: prompt {}", prompts.size() + 1));
    }
    prompts.push_back(*std::move(tokens));
  }
  return prompts;
}

/// max_prompts: how many are read, because the file may be a whole corpus.
Result<Prompts> read_file(const std::string& path, size_t max_prompts,
                          const tokenizer::Tokenizer& tokenizer) {
  MEG_ASSIGN_OR_RETURN(TextLines lines, TextLines::open(path));
  PromptTexts prompt_texts(lines.name());
  Prompts prompts;
  std::string line;
  int64_t number = 1;
  for (; prompts.size() < max_prompts; ++number) {
    Result<bool> more = lines.next(line);
    if (!more.has_value()) return more.error();
    if (!*more) break;
    if (text::trimmed(line).empty()) continue;
    const Result<std::string> text = prompt_texts.text_of(line);
    Result<std::vector<int32_t>> tokens =
        text.has_value() ? tokens_of(*text, tokenizer) : Result<std::vector<int32_t>>(text.error());
    if (!tokens.has_value()) {
      return tokens.error().with_prefix(fmt::format("{}: line {}", lines.name(), number));
    }
    prompts.push_back(std::move(*tokens));
  }
  if (!prompts.empty()) return prompts;
  return make_error(StatusCode::kInvalidArgument, "{}: expected prompts, found {}", lines.name(),
                    number == 1 ? "an empty file" : "only blank lines");
}

}  // namespace

void cut_prompt(const GenerateFlags& flags, std::vector<int32_t>& prompt) {
  const auto most = static_cast<size_t>(flags.prompt_tokens.value_or(std::ssize(prompt)));
  if (prompt.size() > most) prompt.resize(most);
}

Result<Prompts> read_prompts(const GenerateFlags& flags, const tokenizer::Tokenizer& tokenizer) {
  if (flags.num_samples) {
    if (!tokenizer.eod().has_value()) {
      return Status(StatusCode::kInvalidArgument,
                    "--num-samples: expected a tokenizer with an end-of-document token for texts "
                    "to begin after");
    }
    return std::vector(static_cast<size_t>(*flags.num_samples), std::vector{*tokenizer.eod()});
  }
  const auto max_prompts = static_cast<size_t>(
      flags.prompt_file_num_truncate.value_or(std::numeric_limits<int64_t>::max()));
  MEG_ASSIGN_OR_RETURN(Prompts prompts, flags.prompt_file
                                            ? read_file(*flags.prompt_file, max_prompts, tokenizer)
                                            : read_texts(flags.prompts, tokenizer));
  for (std::vector<int32_t>& prompt : prompts) cut_prompt(flags, prompt);
  return prompts;
}

}  // namespace meg::tools
