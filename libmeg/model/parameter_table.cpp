#include "libmeg/model/parameter_table.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "libmeg/model/expert_names.h"
#include "libmeg/model/internal/param_rules.h"
#include "libmeg/model/internal/parameter_rows.h"
#include "libmeg/text/printable.h"

// Finds the rule of a name, and the name back. The rows of internal/parameter_rows.cpp are expanded
// to one rule for every distinct spelling (families that agree share it) and one entry of `names`
// for every canonical name. match() runs all built-in patterns at once (RE2::Set) and then only the
// hits, in the order of the rows, as an earlier row decides where two match. RE2 is used because
// names come from files of strangers, and patterns from users: its time is linear in the name
// whatever the pattern.

namespace meg::model {
namespace {

constexpr std::string_view kLayerNumber = "{}";
constexpr std::string_view kNormBeforeMlp = "decoder.layers.{}.pre_mlp_layernorm.";

/// Comes after every built-in row.
constexpr int kLastOrder = std::numeric_limits<int>::max();

constexpr std::array kFamilies = {NameFamily::kLegacy,
                                  NameFamily::kOld,
                                  NameFamily::kFlat,
                                  NameFamily::kMcoreLocal,
                                  NameFamily::kMcoreTransformerEngine,
                                  NameFamily::kHybrid};
static_assert(kFamilies.size() == kNameFamilyCount);

RE2::Options re2_options() {
  RE2::Options options(RE2::Quiet);
  options.set_encoding(RE2::Options::EncodingLatin1);  // names are bytes
  return options;
}

/// The pattern for a name with {}: 9 digits at most, no leading zeros.
std::string name_pattern(const std::string& name) {
  const size_t at = name.find(kLayerNumber);
  if (at == std::string::npos) return RE2::QuoteMeta(name);
  return RE2::QuoteMeta(name.substr(0, at)) + "(0|[1-9][0-9]{0,8})" +
         RE2::QuoteMeta(name.substr(at + kLayerNumber.size()));
}

/// What is known of names that a pattern matches.
struct Rule {
  std::unique_ptr<RE2> pattern;
  std::string canonical;  ///< Empty: the name as found.
  ParameterMatch match;   ///< Without names and layer.
};

Result<Rule> user_rule(const ParamRule& row) {
  Rule rule;
  rule.pattern = std::make_unique<RE2>(row.pattern, re2_options());
  if (!rule.pattern->ok()) {
    // What follows the colon repeats the pattern.
    const std::string& error = rule.pattern->error();
    return Status(StatusCode::kInvalidArgument, error.substr(0, error.find(": ")));
  }
  const bool has_group = rule.pattern->NumberOfCapturingGroups() > 0;
  rule.match.partition = row.partition;
  rule.match.placement = row.placement.value_or(Placement::kLayer);
  rule.match.families.assign(kFamilies.begin(), kFamilies.end());
  if (has_group && rule.match.placement != Placement::kLayer) {
    return Status(StatusCode::kInvalidArgument,
                  "expected placement layer, as it has a group for the layer's number");
  }
  if (!has_group && rule.match.placement == Placement::kLayer) {
    return Status(StatusCode::kInvalidArgument,
                  "expected a group (\\d+) for the layer's number, or placement embedding, final "
                  "or output");
  }
  return rule;
}

/// What is known of a canonical name.
struct CanonicalName {
  std::array<std::string, kNameFamilyCount> spellings;  ///< By family; empty: none.
  std::string legacy_short;
  std::array<int, kNameFamilyCount> order{};
};

/// The rules of all rows, which no table changes.
struct BuiltInRules {
  std::vector<Rule> rules;
  std::unordered_map<std::string, CanonicalName> names;
  RE2::Set set{re2_options(), RE2::ANCHOR_BOTH};  ///< All patterns of `rules`.

  Status add_all();
  void add_module(const ModuleRow& row);
  void add_name(const ModuleRow& row, std::string_view ending, const ParameterRow& parameter,
                bool is_extra_state, int place);
  Status compile();
  std::optional<ParameterMatch> match(std::string_view name) const;
};

void BuiltInRules::add_name(const ModuleRow& row, std::string_view ending,
                            const ParameterRow& parameter, bool is_extra_state, int place) {
  const auto spelled = [&](std::string_view stem) {
    // A norm fused into a linear module has no state of its own.
    if (stem.empty() || (is_extra_state && !stem.ends_with('.'))) return std::string();
    return std::string(stem) + std::string(ending);
  };
  const std::string canonical = spelled(row.canonical_stem());
  CanonicalName& known = names[canonical];
  known.legacy_short = spelled(row.legacy_short);
  const auto add_rule = [&](const std::string& name, std::vector<NameFamily> families) {
    Rule rule;
    rule.pattern = std::make_unique<RE2>(name_pattern(name), re2_options());
    rule.canonical = canonical;
    rule.match.partition = parameter.partition;
    rule.match.placement = row.placement;
    rule.match.is_extra_state = is_extra_state;
    rule.match.families = std::move(families);
    rules.push_back(std::move(rule));
  };
  std::vector<std::pair<std::string, std::vector<NameFamily>>> distinct;
  for (size_t i = 0; i < kNameFamilyCount; ++i) {
    const std::string name = spelled(row.spellings[i].stem);
    known.spellings[i] = name;
    // A module's weight comes before its bias, and both before the next module.
    known.order[i] = 2 * row.spellings[i].order + place;
    if (name.empty()) continue;
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (same == distinct.end()) {
      distinct.push_back({name, {kFamilies[i]}});
    } else {
      same->second.push_back(kFamilies[i]);
    }
  }
  for (auto& [name, families] : distinct) {
    // Before experts, fused layers have it as local ones do.
    if (name.starts_with(kNormBeforeMlp)) {
      families.insert(families.end(), {NameFamily::kMcoreTransformerEngine, NameFamily::kHybrid});
    }
    add_rule(name, std::move(families));
  }
  if (!known.legacy_short.empty()) add_rule(known.legacy_short, {NameFamily::kLegacy});
}

void BuiltInRules::add_module(const ModuleRow& row) {
  add_name(row, row.weight_name, row.weight, false, 0);
  if (row.bias.extents[0] != Extent::kNone) add_name(row, "bias", row.bias, false, 1);
  if (!row.buffer.empty()) {
    const size_t before = rules.size();
    add_name(row, row.buffer, {Partition::kReplicated, Presence::kUntold, {}}, false, 1);
    for (size_t i = before; i < rules.size(); ++i) rules[i].match.is_buffer = true;
  }
  if (row.has_extra_state) {
    add_name(row, kExtraState, {Partition::kReplicated, Presence::kAlways, {}}, true, 1);
  }
}

Status BuiltInRules::add_all() {
  for (const ModuleRow& row : gpt_module_rows()) add_module(row);
  for (const OtherNameRow& row : gpt_other_name_rows()) {
    Rule rule;
    rule.pattern = std::make_unique<RE2>(std::string(row.pattern), re2_options());
    rule.match.placement = row.placement;
    rule.match.is_extra_state = row.is_extra_state;
    rule.match.is_expert = row.is_expert;
    rule.match.families.assign(kFamilies.begin(), kFamilies.end());
    rules.push_back(std::move(rule));
  }
  return compile();
}

Status BuiltInRules::compile() {
  for (const Rule& rule : rules) {
    std::string error;
    if (!rule.pattern->ok() || set.Add(rule.pattern->pattern(), &error) < 0) {
      return make_error(StatusCode::kInternal, "parameter table: pattern {}: {}",
                        rule.pattern->pattern(), rule.pattern->error() + error);
    }
  }
  if (!set.Compile()) return Status(StatusCode::kInternal, "parameter table: too large to compile");
  return Status();
}

std::optional<ParameterMatch> match_rule(const Rule& rule, std::string_view name) {
  std::array<re2::StringPiece, 2> groups;
  const int count = 1 + std::min(1, rule.pattern->NumberOfCapturingGroups());
  if (!rule.pattern->Match(re2::StringPiece(name.data(), name.size()), 0, name.size(),
                           RE2::ANCHOR_BOTH, groups.data(), count)) {
    return std::nullopt;
  }
  ParameterMatch found = rule.match;
  found.spelling = name;
  // A group that took no part in the match has no data: such a name has no layer.
  if (count == 2 && groups[1].data() != nullptr) {
    static const RE2 layer_number("([0-9]{1,9})");
    int64_t layer = 0;
    // A user's group may have matched anything; what is no layer's number is no match.
    if (!RE2::FullMatch(groups[1], layer_number, &layer)) return std::nullopt;
    found.layer = layer;
    found.spelling.replace(static_cast<size_t>(groups[1].data() - name.data()), groups[1].size(),
                           kLayerNumber);
  }
  found.canonical = rule.canonical.empty() ? found.spelling : rule.canonical;
  return found;
}

/// An expert's parameter, whose name has a second number.
std::optional<ParameterMatch> match_expert(std::string_view name) {
  static const RE2 layer_prefix(R"(decoder\.layers\.(0|[1-9][0-9]{0,8})\.mlp\.experts\.)");
  const std::optional<ExpertName> parsed = parse_expert_name(name);
  re2::StringPiece layer;
  if (!parsed.has_value() ||
      !RE2::FullMatch(re2::StringPiece(parsed->layer_name.data(), parsed->layer_name.size()),
                      layer_prefix, &layer)) {
    return std::nullopt;
  }
  ParameterMatch found;
  found.layer = std::stoll(std::string(layer));
  found.spelling = name;
  found.spelling.replace(static_cast<size_t>(layer.data() - name.data()), layer.size(),
                         kLayerNumber);
  found.canonical = sequential_expert_name(*parse_expert_name(found.spelling));
  found.expert = parsed->expert;
  found.is_extra_state = parsed->parameter.ends_with(kExtraState);
  found.partition = parsed->parameter.starts_with("linear_fc1") ? Partition::kGated
                    : parsed->parameter == "linear_fc2.weight"  ? Partition::kColumns
                                                                : Partition::kReplicated;
  found.families = {NameFamily::kMcoreLocal, NameFamily::kMcoreTransformerEngine,
                    NameFamily::kHybrid};
  return found;
}

std::optional<ParameterMatch> BuiltInRules::match(std::string_view name) const {
  if (std::optional<ParameterMatch> expert = match_expert(name)) return expert;
  std::vector<int> hits;
  if (!set.Match(re2::StringPiece(name.data(), name.size()), &hits)) return std::nullopt;
  std::sort(hits.begin(), hits.end());
  for (const int hit : hits) {
    if (auto found = match_rule(rules[static_cast<size_t>(hit)], name)) return found;
  }
  return std::nullopt;
}

/// Compiled once for all tables of a process.
Result<std::shared_ptr<const BuiltInRules>> built_in_rules() {
  using Made = Result<std::shared_ptr<const BuiltInRules>>;
  static const Made made = []() -> Made {
    auto rules = std::make_shared<BuiltInRules>();
    MEG_RETURN_IF_ERROR(rules->add_all());
    return std::shared_ptr<const BuiltInRules>(std::move(rules));
  }();
  return made;
}

}  // namespace

struct ParameterTable::State {
  std::vector<Rule> user_rules;
  std::shared_ptr<const BuiltInRules> built_in;

  std::optional<ParameterMatch> match(std::string_view flat_name) const;
};

ParameterTable::ParameterTable(std::unique_ptr<State> state) : state_(std::move(state)) {}

ParameterTable::ParameterTable(ParameterTable&&) noexcept = default;
ParameterTable& ParameterTable::operator=(ParameterTable&&) noexcept = default;
ParameterTable::~ParameterTable() = default;

Result<ParameterTable> ParameterTable::gpt() {
  auto state = std::make_unique<State>();
  MEG_ASSIGN_OR_RETURN(state->built_in, built_in_rules());
  return ParameterTable(std::move(state));
}

Status ParameterTable::add_rules(std::string_view text, const std::string& name) {
  MEG_ASSIGN_OR_RETURN(const std::vector<ParamRule> parsed, parse_param_rules(text, name));
  std::vector<Rule> rules;
  for (const ParamRule& row : parsed) {
    Result<Rule> rule = user_rule(row);
    if (!rule) {
      return rule.error().with_prefix(
          fmt::format("{}:{}: pattern {}", name, row.line, text::printable(row.pattern)));
    }
    rules.push_back(std::move(*rule));
  }
  std::move(rules.begin(), rules.end(), std::back_inserter(state_->user_rules));
  return Status();
}

std::optional<ParameterMatch> ParameterTable::match(std::string_view flat_name,
                                                    bool is_hybrid) const {
  std::optional<ParameterMatch> found = state_->match(flat_name);
  if (!is_hybrid || !found.has_value() || !found->layer.has_value()) return found;
  if (*found->layer % 2 != hybrid_half(found->spelling)) return std::nullopt;
  found->layer = *found->layer / 2;
  return found;
}

std::optional<ParameterMatch> ParameterTable::State::match(std::string_view flat_name) const {
  std::optional<ParameterMatch> known = built_in->match(flat_name);
  for (const Rule& rule : user_rules) {
    std::optional<ParameterMatch> found = match_rule(rule, flat_name);
    if (!found) continue;
    // The user's row decides cut and placement; what the parameter is called everywhere stays, or
    // it would not be found under that name in another layout.
    if (known && !known->is_expert && !known->is_extra_state) {
      found->canonical = std::move(known->canonical);
      found->families = std::move(known->families);
    }
    return found;
  }
  return known;
}

std::optional<std::string> ParameterTable::spell(std::string_view canonical, NameFamily family,
                                                 bool norm_spelling_is_short) const {
  // Sequential experts are spelled alike in both mcore families.
  if (is_mcore(family) && parse_expert_name(canonical).has_value()) return std::string(canonical);
  const auto found = state_->built_in->names.find(std::string(canonical));
  if (found == state_->built_in->names.end()) return std::nullopt;
  const CanonicalName& name = found->second;
  if (family == NameFamily::kLegacy && norm_spelling_is_short && !name.legacy_short.empty()) {
    return name.legacy_short;
  }
  const std::string& spelling = name.spellings[static_cast<size_t>(family)];
  if (spelling.empty()) return std::nullopt;
  return spelling;
}

namespace {

/// Puts experts after the router, before shared experts.
int expert_order(const ExpertName& name) {
  constexpr int kFirst = 1 << 10;
  constexpr int kMostExperts = 1 << 20;
  const int within = 2 * (name.parameter.starts_with("linear_fc2") ? 1 : 0) +
                     (name.parameter.ends_with("bias") ? 1 : 0);
  return kFirst + static_cast<int>(std::min<int64_t>(name.expert, kMostExperts)) * 4 + within;
}

}  // namespace

int ParameterTable::order(std::string_view canonical, NameFamily family) const {
  if (const std::optional<ExpertName> expert = parse_expert_name(canonical)) {
    return is_mcore(family) ? expert_order(*expert) : kLastOrder;
  }
  const auto found = state_->built_in->names.find(std::string(canonical));
  if (found == state_->built_in->names.end()) return kLastOrder;
  const size_t index = static_cast<size_t>(family);
  return found->second.spellings[index].empty() ? kLastOrder : found->second.order[index];
}

std::vector<std::string> ParameterTable::extra_state_modules(NameFamily family) const {
  // Those revisions know no such state.
  if (family == NameFamily::kOld || family == NameFamily::kFlat) return {};
  std::vector<const ModuleRow*> rows;
  for (const ModuleRow& row : gpt_module_rows()) {
    if (row.has_extra_state) rows.push_back(&row);
  }
  const auto order = [family](const ModuleRow* row) {
    return std::pair(row->placement, row->spellings[static_cast<size_t>(family)].order);
  };
  std::sort(rows.begin(), rows.end(), [&](const ModuleRow* left, const ModuleRow* right) {
    return order(left) < order(right);
  });
  std::vector<std::string> modules;
  for (const ModuleRow* row : rows) {
    const std::string_view stem = row->canonical_stem();
    modules.emplace_back(stem.substr(0, stem.size() - 1));  // less the dot
  }
  return modules;
}

}  // namespace meg::model
