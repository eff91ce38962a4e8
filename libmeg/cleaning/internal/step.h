#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/words/english_words.h"

namespace meg::cleaning {

/// A document on its way through the steps.
class Document {
 public:
  /// json: the object that holds it, as JsonMembers needs it; else empty. text: UTF-8 with
  /// text::kTextPadding readable bytes after it. words: split it when somebody asks for its words.
  Document(std::string_view json, std::string_view text, EnglishWords& words)
      : json_(json), text_(text), words_(words) {}

  std::string_view json() const { return json_; }

  std::string_view text() const { return text_; }

  bool is_changed() const { return is_changed_; }

  /// Whether the text has changed since the last call.
  bool take_news() { return std::exchange(has_news_, false); }

  void change_text(std::string_view text) {
    has_news_ = has_news_ || text != text_;
    is_changed_ = is_changed_ || has_news_;
    text_ = text;
    is_split_ = false;
  }

  /// What the step of languages found; empty before it. language: lives as long as that step.
  void set_language(std::string_view language) { language_ = language; }

  std::string_view language() const { return language_; }

  const std::vector<std::string_view>& words() {
    if (!is_split_) words_.split(text_);
    is_split_ = true;
    return words_.words();
  }

 private:
  std::string_view json_;
  std::string_view text_;
  std::string_view language_;
  EnglishWords& words_;
  bool is_split_ = false;
  bool is_changed_ = false;
  bool has_news_ = false;
};

/// kCorruption where the text is a list of strings.
Status check_is_text(bool has_list);

/// One thing that is done with documents. Belongs to one thread.
class Step {
 public:
  virtual ~Step() = default;

  /// Why the document goes; empty where it stays. A step that changes the text keeps the new one,
  /// with its padding, until the next call.
  virtual Result<std::string_view> run(Document& document) = 0;
};

/// A step of a run, made once for every thread.
struct StepPlan {
  std::string name;
  std::function<std::unique_ptr<Step>()> make;
};

/// What sample and splits go by: the text, or the value of options.hash_key, a string without its
/// quotes and escapes (`buffer` is used for them); empty where it is missing.
std::string_view value_to_hash(std::string_view json, std::string_view text,
                               const CleanOptions& options, std::string& buffer);

/// kInvalidArgument for languages that the model does not know; FastTextModel::open()'s.
Result<StepPlan> plan_language(const LanguageOptions& options);

/// The step of one of quality_rules().
StepPlan plan_quality(const std::string& name);

/// The steps that options ask for, in order, that need no other document. kInvalidArgument for
/// wrong values.
Result<std::vector<StepPlan>> plan_steps(const CleanOptions& options);

}  // namespace meg::cleaning
