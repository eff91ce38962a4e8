#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "libmeg/text/printable.h"
#include "libmeg/text/terminal_text.h"
#include "tools/common/json_output.h"
#include "tools/tokenizer_inspect/tokenizer_inspect.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;
using tokenizer::TokenDifference;

/// Differences of each kind that are printed; --json has all.
constexpr size_t kShownDifferences = 10;

std::string piece_text(std::string_view bytes) {
  return text::printable(bytes, std::numeric_limits<size_t>::max());
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const std::vector<TokenDifference>& differences) {
  ordered_json list = ordered_json::array();
  for (const TokenDifference& one : differences) {
    list.push_back({{"token", piece_text(one.bytes)},
                    {"id", one.id < 0 ? ordered_json() : ordered_json(one.id)},
                    {"other_id", one.other_id < 0 ? ordered_json() : ordered_json(one.other_id)}});
  }
  return list;
}

ordered_json json_of(const TextStatistics& statistics) {
  ordered_json object = {{"documents", statistics.documents},
                         {"bytes", statistics.bytes},
                         {"words", statistics.words},
                         {"tokens", statistics.tokens},
                         {"bytes_per_token", statistics.bytes_per_token()},
                         {"tokens_per_word", statistics.tokens_per_word()}};
  if (const auto& difference = statistics.difference) {
    object["first_difference"] = {{"text", difference->text},
                                  {"token", difference->token},
                                  {"at", piece_text(difference->bytes)}};
  }
  return object;
}

void print_tokens(const std::vector<TextToken>& tokens, bool colours) {
  if (!colours) {
    for (const TextToken& token : tokens) fmt::print("{}\t{}\n", token.id, piece_text(token.bytes));
    return;
  }
  constexpr std::array<int, 6> kBackgrounds = {153, 194, 223, 217, 183, 159};  // of 256, pale
  size_t index = 0;
  for (const TextToken& token : tokens) {
    // Line ends are shown and kept: a token's end must be seen, and the text's layout as well.
    std::string shown = text::terminal_text(token.bytes);
    for (size_t at = 0; (at = shown.find_first_of("\n\t", at)) != shown.npos; at += 2) {
      shown.replace(at, 1, shown[at] == '\n' ? "\\n" : "\\t");
    }
    fmt::print("\x1b[30;48;5;{}m{}\x1b[0m", kBackgrounds[index++ % kBackgrounds.size()], shown);
    if (token.bytes.ends_with('\n')) fmt::print("\n");
  }
  fmt::print("\n");
}

void print_id(std::string_view name, const std::optional<int32_t>& id) {
  if (id) fmt::print("{}: {}\n", name, *id);
}

void print_description(const Inspection& inspection) {
  fmt::print("type: {}\nmodel: {}\nvocabulary: {}\npadded vocabulary: {}\n", inspection.type,
             inspection.description.model, inspection.vocab_size, inspection.padded_vocab_size);
  fmt::print("pattern: {}\nnormalizer: {}\n", text::terminal_text(inspection.description.pattern),
             text::terminal_text(inspection.description.normalizer));
  print_id("end of document", inspection.eod);
  print_id("begin of text", inspection.bos);
  print_id("padding", inspection.pad);
  fmt::print("special tokens: {}\n", inspection.special_tokens.size());
  for (const tokenizer::SpecialToken& token : inspection.special_tokens) {
    fmt::print("  {}\t{}\n", token.id, piece_text(token.text));
  }
}

void print_statistics(const TextStatistics& statistics) {
  fmt::print(
      "documents: {}\nbytes: {}\nwords: {}\ntokens: {}\nbytes a token: {:.3f}\n"
      "tokens a word: {:.3f}\n",
      statistics.documents, statistics.bytes, statistics.words, statistics.tokens,
      statistics.bytes_per_token(), statistics.tokens_per_word());
}

void print_list(std::string_view title, const std::vector<TokenDifference>& differences) {
  fmt::print("{}: {}\n", title, differences.size());
  for (size_t i = 0; i < std::min(differences.size(), kShownDifferences); ++i) {
    const TokenDifference& one = differences[i];
    fmt::print("  {}", one.id < 0 ? one.other_id : one.id);
    if (one.id >= 0 && one.other_id >= 0) fmt::print(" -> {}", one.other_id);
    fmt::print("\t{}\n", piece_text(one.bytes));
  }
}

void print_differences(const Inspection& inspection) {
  fmt::print("equal tokens: {}\n", inspection.differences->equal);
  print_list("tokens only here", inspection.differences->only_here);
  print_list("tokens only in the other", inspection.differences->only_there);
  print_list("tokens with a different id", inspection.differences->moved);
  if (!inspection.statistics) return;
  const std::optional<TextDifference>& difference = inspection.statistics->difference;
  if (!difference) {
    fmt::print("texts: equal\n");
    return;
  }
  fmt::print("first text that differs: {}, from token {} on: {}\n", difference->text,
             difference->token, piece_text(difference->bytes));
}

}  // namespace

void print_inspection_json(const Inspection& inspection) {
  ordered_json object = json_object();
  object["type"] = inspection.type;
  object["model"] = inspection.description.model;
  object["vocab_size"] = inspection.vocab_size;
  object["padded_vocab_size"] = inspection.padded_vocab_size;
  object["pattern"] = inspection.description.pattern;
  object["normalizer"] = inspection.description.normalizer;
  object["eod"] = or_null(inspection.eod);
  object["bos"] = or_null(inspection.bos);
  object["pad"] = or_null(inspection.pad);
  object["special_tokens"] = ordered_json::array();
  for (const tokenizer::SpecialToken& token : inspection.special_tokens) {
    object["special_tokens"].push_back({{"id", token.id}, {"text", token.text}});
  }
  if (inspection.tokens) {
    object["tokens"] = ordered_json::array();
    for (const TextToken& token : *inspection.tokens) {
      object["tokens"].push_back({{"id", token.id}, {"piece", piece_text(token.bytes)}});
    }
  }
  if (inspection.statistics) object["statistics"] = json_of(*inspection.statistics);
  if (const auto& differences = inspection.differences) {
    object["differences"] = {{"equal", differences->equal},
                             {"only_here", json_of(differences->only_here)},
                             {"only_there", json_of(differences->only_there)},
                             {"moved", json_of(differences->moved)}};
  }
  if (!inspection.python_check.empty()) object["python_check"] = inspection.python_check;
  print_json(object);
}

void print_inspection(const Inspection& inspection, bool colours) {
  if (!inspection.python_check.empty()) {
    fmt::print("{}\n", inspection.python_check);
    return;
  }
  if (inspection.differences) {
    print_differences(inspection);
  } else if (inspection.tokens) {
    print_tokens(*inspection.tokens, colours);
    if (colours) print_statistics(*inspection.statistics);
  } else if (inspection.statistics) {
    print_statistics(*inspection.statistics);
  } else {
    print_description(inspection);
  }
}

}  // namespace meg::tools
