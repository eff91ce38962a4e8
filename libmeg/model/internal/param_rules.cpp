#include "libmeg/model/internal/param_rules.h"

#include <algorithm>
#include <span>
#include <utility>

#include "libmeg/text/printable.h"

namespace meg::model {
namespace {

constexpr std::pair<std::string_view, Partition> kPartitions[] = {
    {"replicated", Partition::kReplicated},
    {"rows", Partition::kRows},
    {"columns", Partition::kColumns},
    {"vocabulary", Partition::kVocabulary},
    {"qkv", Partition::kQkv},
    {"gated", Partition::kGated}};

constexpr std::pair<std::string_view, Placement> kPlacements[] = {
    {"embedding", Placement::kEmbedding},
    {"layer", Placement::kLayer},
    {"final", Placement::kFinal},
    {"output", Placement::kOutput}};

constexpr std::string_view kWhitespace = " \t\r\v\f";

std::vector<std::string_view> tokens_of(std::string_view line) {
  std::vector<std::string_view> tokens;
  for (size_t at = line.find_first_not_of(kWhitespace); at != std::string_view::npos;
       at = line.find_first_not_of(kWhitespace)) {
    line.remove_prefix(at);
    // A comment starts only at the begin of a token: a pattern may have a # inside.
    if (line.front() == '#') break;
    tokens.push_back(line.substr(0, line.find_first_of(kWhitespace)));
    line.remove_prefix(tokens.back().size());
  }
  return tokens;
}

/// The value of a word; the error lists the words there are.
template <class T>
Result<T> look_up(std::span<const std::pair<std::string_view, T>> words, std::string_view what,
                  std::string_view token) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (word == token) return value;
    if (!known.empty()) known += &word == &words.back().first ? " or " : ", ";
    known += word;
  }
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", what, known,
                    text::printable(token));
}

Result<ParamRule> parse_line(const std::vector<std::string_view>& tokens) {
  if (tokens.size() < 2 || tokens.size() > 3) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected PATTERN PARTITION [PLACEMENT], found {} word{}: {}{}",
                      tokens.size(), tokens.size() == 1 ? "" : "s", text::printable(tokens.front()),
                      tokens.size() == 1 ? "" : " ...");
  }
  ParamRule rule;
  rule.pattern = tokens[0];
  MEG_ASSIGN_OR_RETURN(rule.partition, look_up<Partition>(kPartitions, "partition", tokens[1]));
  if (tokens.size() == 3) {
    MEG_ASSIGN_OR_RETURN(rule.placement, look_up<Placement>(kPlacements, "placement", tokens[2]));
  }
  return rule;
}

}  // namespace

Result<std::vector<ParamRule>> parse_param_rules(std::string_view text, const std::string& name) {
  std::vector<ParamRule> rules;
  for (int64_t line = 1; !text.empty(); ++line) {
    const std::string_view content = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), content.size() + 1));
    const std::vector<std::string_view> tokens = tokens_of(content);
    if (tokens.empty()) continue;
    Result<ParamRule> rule = parse_line(tokens);
    if (!rule) return rule.error().with_prefix(fmt::format("{}:{}", name, line));
    rule->line = line;
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace meg::model
