#include "libmeg/tokenizer/training/internal/training_pattern.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "libmeg/text/nearest_name.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/json_file.h"
#include "libmeg/tokenizer/training/bpe_trainer.h"
#include "libmeg/tokenizer/training/internal/serde_json.h"

namespace meg::tokenizer {
namespace {

constexpr std::string_view kGpt2 = "gpt2";

/// Names and what find_pattern_by_name calls them. tiktoken's own form of cl100k means another
/// thing to Hugging Face's tokenizers (`{1,3}+` repeats there); their files write Llama 3's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kNames = {
    {{kGpt2, {}},
     {"cl100k", "llama3"},
     {"o200k", "o200k"},
     {"llama3", "llama3"},
     {"qwen2", "qwen2"},
     {"qwen3", "qwen2"},
     {"qwen3.5", "qwen3.5"},
     {"tekken", "v2"},
     {"v1", "v1"},
     {"v2", "v2"}}};

constexpr std::string_view kByteLevel = R"({
    "type": "ByteLevel",
    "add_prefix_space": false,
    "trim_offsets": true,
    "use_regex": true
  })";

constexpr std::string_view kSplit = R"({{
    "type": "Sequence",
    "pretokenizers": [
      {{
        "type": "Split",
        "pattern": {{
          "Regex": {}
        }},
        "behavior": "Isolated",
        "invert": false
      }},
      {{
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": false
      }}
    ]
  }})";

/// Whether a pattern can only be meant as a name: as a regular expression it would be one word.
bool looks_like_name(std::string_view pattern) {
  return std::all_of(pattern.begin(), pattern.end(), [](unsigned char c) {
    return c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
  });
}

Result<std::string> regex_of(const std::string& pattern) {
  for (const auto& [name, known] : kNames) {
    if (name == pattern) return std::string(find_pattern_by_name(known)->regex);
  }
  if (looks_like_name(pattern) || text::find_invalid_utf8(pattern) != pattern.npos) {
    const std::vector<std::string_view> names = training_patterns();
    const auto nearest = text::nearest_name(pattern, names);
    return make_error(StatusCode::kInvalidArgument,
                      "pattern: expected {} or a regular expression, found {}{}",
                      fmt::join(names, ", "), text::printable(pattern),
                      nearest ? fmt::format(": did you mean {}?", names[*nearest]) : "");
  }
  return pattern;
}

}  // namespace

std::vector<std::string_view> training_patterns() {
  std::vector<std::string_view> names;
  for (const auto& [name, known] : kNames) names.push_back(name);
  return names;
}

bool is_gpt2_pattern(const std::string& pattern) { return pattern == kGpt2; }

Result<std::string> pre_tokenizer_json(const std::string& pattern) {
  if (is_gpt2_pattern(pattern)) return std::string(kByteLevel);
  MEG_ASSIGN_OR_RETURN(const std::string regex, regex_of(pattern));
  return fmt::format(kSplit, serde_quoted(regex));
}

Result<PreTokenizer> training_pre_tokenizer(const std::string& pattern) {
  // The same JSON that is saved is read again, so that what is trained and what will be loaded
  // cannot differ.
  MEG_ASSIGN_OR_RETURN(const std::string json, pre_tokenizer_json(pattern));
  MEG_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::parse(json, "pattern"));
  Result<PreTokenizer> read = read_pre_tokenizer(file.root());
  if (read.has_value()) return read;
  return make_error(read.error().code(), "pattern {}: {}", text::printable(pattern),
                    read.error().message());
}

}  // namespace meg::tokenizer
