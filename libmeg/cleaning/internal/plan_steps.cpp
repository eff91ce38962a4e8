#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/repair/repair_text.h"
#include "libmeg/cleaning/urls/url_rules.h"
#include "libmeg/text/json/json_object.h"
#include "libmeg/text/text_padding.h"

// The steps that look at one document's keys or length, and the order of all steps.

namespace meg::cleaning {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// A KeyRule, ready.
struct CompiledRule {
  KeyRule rule;
  std::unique_ptr<re2::RE2> pattern;
};

class KeyStep : public Step {
 public:
  explicit KeyStep(std::shared_ptr<const std::vector<CompiledRule>> rules)
      : rules_(std::move(rules)) {}

  Result<std::string_view> run(Document& document) override {
    for (const CompiledRule& compiled : *rules_) {
      const std::string_view value = text::find_json_value(document.json(), compiled.rule.key);
      if (!fits(compiled, value)) return std::string_view(compiled.rule.key);
    }
    return std::string_view();
  }

 private:
  bool fits(const CompiledRule& compiled, std::string_view value) {
    if (value.empty()) return false;
    if (compiled.pattern != nullptr) {
      if (value.front() != '"') return false;
      const std::string_view text = text::json_string_text(value, buffer_);
      return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *compiled.pattern);
    }
    double number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return false;
    const KeyRule& rule = compiled.rule;
    return number >= rule.min.value_or(-std::numeric_limits<double>::infinity()) &&
           number <= rule.max.value_or(std::numeric_limits<double>::infinity());
  }

  std::shared_ptr<const std::vector<CompiledRule>> rules_;
  std::string buffer_;
};

class RepairStep : public Step {
 public:
  explicit RepairStep(const std::vector<std::string>& rules) : repair_(rules) {}

  Result<std::string_view> run(Document& document) override {
    if (!repair_.repair(document.text(), text_)) return std::string_view();
    const size_t size = text_.size();
    text_.resize(size + text::kTextPadding);
    document.change_text(std::string_view(text_).substr(0, size));
    return std::string_view();
  }

 private:
  TextRepair repair_;
  std::string text_;
};

class UrlStep : public Step {
 public:
  UrlStep(const std::string& key, std::shared_ptr<const UrlRules> rules)
      : key_(key), rules_(std::move(rules)) {}

  Result<std::string_view> run(Document& document) override {
    if (key_.empty()) return rules_->reason(document.text());
    const std::string_view value = text::find_json_value(document.json(), key_);
    if (value.empty() || value.front() != '"') return std::string_view("no_url");
    return rules_->reason(text::json_string_text(value, buffer_));
  }

 private:
  const std::string& key_;
  std::shared_ptr<const UrlRules> rules_;
  std::string buffer_;
};

class CharsStep : public Step {
 public:
  CharsStep(int64_t min, int64_t max) : min_(min), max_(max) {}

  Result<std::string_view> run(Document& document) override {
    const int64_t count = count_characters(document.text());
    return std::string_view(count < min_ ? "min_chars" : count > max_ ? "max_chars" : "");
  }

 private:
  int64_t min_, max_;
};

class TokensStep : public Step {
 public:
  TokensStep(const tokenizer::Tokenizer& tokenizer, int64_t min, int64_t max)
      : encoder_(tokenizer.new_encoder(DType::kInt32)),
        tokens_(DType::kInt32),
        min_(min),
        max_(max) {}

  Result<std::string_view> run(Document& document) override {
    tokens_.clear();
    MEG_RETURN_IF_ERROR(encoder_->encode(document.text(), tokens_));
    const auto count = static_cast<int64_t>(tokens_.size());
    return std::string_view(count < min_ ? "min_tokens" : count > max_ ? "max_tokens" : "");
  }

 private:
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;
  tokenizer::TokenBuffer tokens_;
  int64_t min_, max_;
};

class SampleStep : public Step {
 public:
  explicit SampleStep(const CleanOptions& options) : options_(options) {}

  Result<std::string_view> run(Document& document) override {
    const std::string_view value =
        value_to_hash(document.json(), document.text(), options_, buffer_);
    const bool stays = drawn_numbers(value, options_.seed).low < *options_.sample;
    return std::string_view(stays ? "" : "sample");
  }

 private:
  const CleanOptions& options_;
  std::string buffer_;
};

Status check_names(std::string_view option, const std::vector<std::string>& names,
                   std::span<const std::string_view> known) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return make_error(StatusCode::kInvalidArgument, "`{}`: expected one of {}, found {}", option,
                      fmt::join(known, ", "), name);
  }
  return {};
}

Status check_range(std::string_view min_name, std::optional<int64_t> min, std::string_view max_name,
                   std::optional<int64_t> max) {
  if (min.value_or(0) < 0 || max.value_or(0) < 0 || min.value_or(0) > max.value_or(kNoLimit)) {
    return make_error(StatusCode::kInvalidArgument,
                      "`{}`, `{}`: expected 0 <= {} <= {}, found {}, {}", min_name, max_name,
                      min_name, max_name, min.value_or(0), max.value_or(kNoLimit));
  }
  return {};
}

Result<StepPlan> plan_key_rules(const CleanOptions& options) {
  auto rules = std::make_shared<std::vector<CompiledRule>>();
  for (const KeyRule& rule : options.key_rules) {
    CompiledRule compiled{.rule = rule, .pattern = nullptr};
    if (rule.pattern) {
      compiled.pattern = std::make_unique<re2::RE2>(*rule.pattern, re2::RE2::Quiet);
      if (!compiled.pattern->ok()) {
        return make_error(StatusCode::kInvalidArgument, "{}: expected a regular expression, {}",
                          *rule.pattern, compiled.pattern->error());
      }
    }
    constexpr double kAny = std::numeric_limits<double>::infinity();
    const double min = rule.min.value_or(-kAny), max = rule.max.value_or(kAny);
    if (!(min <= max)) {  // nor where one is no number
      return make_error(StatusCode::kInvalidArgument,
                        "`require_range`: {}: expected MIN <= MAX, found {}..{}", rule.key, min,
                        max);
    }
    rules->push_back(std::move(compiled));
  }
  return StepPlan{.name = "key_rules",
                  .make = [rules] { return std::make_unique<KeyStep>(rules); }};
}

}  // namespace

std::string_view value_to_hash(std::string_view json, std::string_view text,
                               const CleanOptions& options, std::string& buffer) {
  if (options.hash_key.empty()) return text;
  const std::string_view value = text::find_json_value(json, options.hash_key);
  return value.starts_with('"') ? text::json_string_text(value, buffer) : value;
}

Status check_is_text(bool has_list) {
  if (!has_list) return {};
  return Status(StatusCode::kCorruption, "byte 1: expected a string, found a list of strings");
}

Result<std::vector<StepPlan>> plan_steps(const CleanOptions& options) {
  std::vector<StepPlan> plans;
  MEG_RETURN_IF_ERROR(check_names("repair", options.repair, repair_rules()));
  if (!options.repair.empty()) {
    plans.push_back({.name = "repair",
                     .make = [&options] { return std::make_unique<RepairStep>(options.repair); }});
  }
  if (options.urls) {
    MEG_ASSIGN_OR_RETURN(UrlRules rules, UrlRules::read(*options.urls));
    plans.push_back(
        {.name = "urls",
         .make = [&options, rules = std::make_shared<const UrlRules>(std::move(rules))] {
           return std::make_unique<UrlStep>(options.urls->key, rules);
         }});
  }
  if (!options.key_rules.empty()) {
    MEG_ASSIGN_OR_RETURN(StepPlan plan, plan_key_rules(options));
    plans.push_back(std::move(plan));
  }
  MEG_RETURN_IF_ERROR(check_range("min_chars", options.min_chars, "max_chars", options.max_chars));
  if (options.min_chars || options.max_chars) {
    plans.push_back({.name = "chars", .make = [&options] {
                       return std::make_unique<CharsStep>(options.min_chars.value_or(0),
                                                          options.max_chars.value_or(kNoLimit));
                     }});
  }
  MEG_RETURN_IF_ERROR(
      check_range("min_tokens", options.min_tokens, "max_tokens", options.max_tokens));
  if (options.min_tokens || options.max_tokens) {
    if (options.tokenizer == nullptr) {
      return Status(StatusCode::kInvalidArgument,
                    "`min_tokens`, `max_tokens`: require `tokenizer_type`");
    }
    plans.push_back({.name = "tokens", .make = [&options] {
                       return std::make_unique<TokensStep>(*options.tokenizer,
                                                           options.min_tokens.value_or(0),
                                                           options.max_tokens.value_or(kNoLimit));
                     }});
  }
  if (options.language) {
    MEG_ASSIGN_OR_RETURN(StepPlan plan, plan_language(*options.language));
    plans.push_back(std::move(plan));
  }
  for (const std::string_view rule : quality_rules()) {
    const std::string name(rule);
    if (std::count(options.quality.begin(), options.quality.end(), name) > 0) {
      plans.push_back(plan_quality(name));
    }
  }
  MEG_RETURN_IF_ERROR(check_names("quality", options.quality, quality_rules()));
  if (options.sample) {
    plans.push_back(
        {.name = "sample", .make = [&options] { return std::make_unique<SampleStep>(options); }});
  }
  return plans;
}

}  // namespace meg::cleaning
