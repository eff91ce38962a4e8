#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/json/internal/base64.h"
#include "libmeg/tokenizer/json/internal/json_part.h"
#include "libmeg/tokenizer/json/internal/text_file.h"

namespace meg::tokenizer {
namespace {

/// place: gives the text of the token's place.
template <class Place>
Result<std::string> token_of(std::string_view base64, const Place& place) {
  std::optional<std::string> token = decode_base64(base64);
  if (token && !token->empty()) return *std::move(token);
  return make_error(StatusCode::kCorruption, "{}: expected base64 of a token, found {}", place(),
                    text::printable(base64));
}

template <class Place>
Status check_rank(int64_t rank, size_t expected, const Place& place) {
  if (rank == static_cast<int64_t>(expected)) return {};
  return make_error(StatusCode::kCorruption, "{}: expected rank {}, found {}", place(), expected,
                    rank);
}

Result<std::vector<std::string>> read_lines(std::string_view text, const std::string& name) {
  std::vector<std::string> tokens;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    // Skip it like tiktoken's own reader: the file ends with a line end, and editors add more.
    if (line.empty()) continue;
    const auto place = [&] { return fmt::format("{}: line {}", name, number); };
    const size_t space = line.find(' ');
    int64_t rank = -1;
    if (space != std::string_view::npos) {
      const char* const last = line.data() + line.size();
      const auto parsed = std::from_chars(line.data() + space + 1, last, rank);
      if (parsed.ec != std::errc() || parsed.ptr != last) rank = -1;
    }
    if (rank < 0) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected base64, a space and a rank, found {}", place(),
                        text::printable(line));
    }
    MEG_ASSIGN_OR_RETURN(std::string token, token_of(line.substr(0, space), place));
    MEG_RETURN_IF_ERROR(check_rank(rank, tokens.size(), place));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<std::vector<std::string>> read_list(std::string_view text, const std::string& name) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
    return make_error(StatusCode::kCorruption, "{}: expected a JSON list, found invalid JSON: {}",
                      name, simdjson::error_message(error));
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> entries, JsonPart(root, name).items());
  std::vector<std::string> tokens;
  for (const JsonPart& entry : entries) {
    MEG_ASSIGN_OR_RETURN(const auto members, entry.members());
    // Megatron asserts that these are all; token_str is for people, since many tokens are no text.
    if (members.size() != 3) return entry.corrupt("rank, token_bytes and token_str alone");
    MEG_ASSIGN_OR_RETURN(const JsonPart rank, entry.member("rank"));
    MEG_ASSIGN_OR_RETURN(const int64_t number, rank.integer());
    MEG_RETURN_IF_ERROR(check_rank(number, tokens.size(), [&] { return rank.place(); }));
    MEG_ASSIGN_OR_RETURN(const JsonPart bytes, entry.member("token_bytes"));
    MEG_ASSIGN_OR_RETURN(const std::string_view base64, bytes.text());
    MEG_ASSIGN_OR_RETURN(std::string token, token_of(base64, [&] { return bytes.place(); }));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

Result<std::vector<std::string>> read_rank_file(std::string_view text, const std::string& name) {
  text = without_byte_order_mark(text);
  MEG_RETURN_IF_ERROR(reject_empty_or_html(text, name, "base64 and a rank, or a JSON list"));
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return text.substr(first).starts_with('[') ? read_list(text, name) : read_lines(text, name);
}

}  // namespace meg::tokenizer
