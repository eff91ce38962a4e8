#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/steps/internal/normalizer.h"
#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/script.h"
#include "libmeg/tokenizer/unicode/internal/step_class.h"

namespace meg::tokenizer {
namespace {

bool is_number(char32_t c) { return is_of(StepClass::kNumeric, c); }

bool is_punctuation(char32_t c) { return is_of(StepClass::kPunctuation, c); }

bool is_word(char32_t c) { return is_of(StepClass::kWord, c); }

struct Part {
  size_t begin, end;
  bool matches;
};

/// Characters of a class and runs of others, in order.
std::vector<Part> parts_of(bool (*is_match)(char32_t), std::string_view text) {
  std::vector<Part> parts;
  for (size_t at = 0; at < text.size();) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
    const bool matches = is_match(next.code_point);
    // A matching character is a part of its own; others run together.
    if (matches || parts.empty() || parts.back().matches) parts.push_back({at, at, matches});
    parts.back().end = at += next.size;
  }
  return parts;
}

Result<std::optional<RegexMatcher::Match>> find_match(const RegexMatcher& regex,
                                                      std::string_view text, size_t from) {
  return regex.find(text, from);
}

Result<std::optional<RegexMatcher::Match>> find_match(const std::string& wanted,
                                                      std::string_view text, size_t from) {
  const size_t begin = text.find(wanted, from);
  if (begin == std::string_view::npos) return std::optional<RegexMatcher::Match>();
  return std::optional<RegexMatcher::Match>({begin, begin + wanted.size()});
}

/// Matches and what lies between them, in order.
template <class Pattern>
Result<std::vector<Part>> parts_of(const Pattern& pattern, const SplitStep& step,
                                   std::string_view text) {
  std::vector<Part> parts;
  size_t at = 0;
  while (true) {
    MEG_ASSIGN_OR_RETURN(const auto found, find_match(pattern, text, at));
    if (!found) break;
    if (found->first > at) parts.push_back({at, found->first, step.invert});
    parts.push_back({found->first, found->second, !step.invert});
    at = found->second;
  }
  if (at < text.size()) parts.push_back({at, text.size(), step.invert});
  return parts;
}

std::vector<Part> parts_by_script(std::string_view text) {
  std::vector<Part> parts;
  uint8_t last = kAnyScript;
  for (size_t at = 0; at < text.size();) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
    const uint8_t script = script_of(next.code_point);
    if (script != kAnyScript && script != last) parts.push_back({at, at, false});
    if (script != kAnyScript) last = script;
    at += next.size;
    if (!parts.empty()) parts.back().end = at;
  }
  return parts;
}

Result<std::vector<Part>> parts_of(const SplitStep& step, std::string_view text) {
  if (const auto* const wanted = std::get_if<std::string>(&step.pattern)) {
    return parts_of(*wanted, step, text);
  }
  if (std::holds_alternative<ScriptBorders>(step.pattern)) return parts_by_script(text);
  const auto* const regex = std::get_if<RegexMatcher>(&step.pattern);
  return regex != nullptr ? parts_of(*regex, step, text)
                          : parts_of(std::get<1>(step.pattern), text);
}

/// Joins each part with the one before it that `joins` says it belongs to.
template <class Joins>
std::vector<Part> joined(const std::vector<Part>& parts, const Joins& joins) {
  std::vector<Part> result;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && joins(parts[i - 1], parts[i])) {
      result.back().end = parts[i].end;
    } else {
      result.push_back(parts[i]);
    }
  }
  return result;
}

std::vector<Part> behaved(std::vector<Part> parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return parts;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.matches; });
      return parts;
    case SplitBehavior::kContiguous:
      return joined(parts, [](const Part& a, const Part& b) { return a.matches == b.matches; });
    case SplitBehavior::kMergedWithPrevious:
      return joined(parts, [](const Part& a, const Part& b) { return b.matches && !a.matches; });
    case SplitBehavior::kMergedWithNext:
      return joined(parts, [](const Part& a, const Part& b) { return a.matches && !b.matches; });
  }
  return parts;
}

Result<SplitBehavior> read_behavior(const JsonPart& part) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  MEG_ASSIGN_OR_RETURN(const std::string_view name, part.text());
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  return part.unsupported(text::printable_name(name));
}

/// Hands the parts of a text, the one in which matches are looked for, to emit.
template <class Emit>
Status emit_parts(const SplitStep& step, std::string_view text, const Emit& emit) {
  MEG_ASSIGN_OR_RETURN(std::vector<Part> parts, parts_of(step, text));
  for (const Part& part : behaved(std::move(parts), step.behavior)) {
    MEG_RETURN_IF_ERROR(emit(part));
  }
  return {};
}

Status split_in_alphabet(const SplitStep& step, std::string_view text,
                         const std::function<Status(std::string_view part)>& emit) {
  std::string characters;
  std::vector<size_t> bytes;  // the place in text of what each byte of `characters` belongs to
  for (size_t at = 0; at < text.size(); ++at) {
    append_byte_characters(text.substr(at, 1), characters);
    bytes.resize(characters.size(), at);
  }
  bytes.push_back(text.size());
  return emit_parts(step, characters, [&](const Part& part) {
    return emit(text.substr(bytes[part.begin], bytes[part.end] - bytes[part.begin]));
  });
}

/// What finds the words of all steps and of `words` at once; null if they are no known sequence.
const KnownSequence* known_steps(const PreTokenizer& parts) {
  if (!parts.byte_level || parts.add_prefix_space) return nullptr;
  std::vector<std::string> steps;
  for (const SplitStep& step : parts.steps) {
    if (step.behavior != SplitBehavior::kIsolated || step.in_alphabet) return nullptr;
    const auto* const regex = std::get_if<RegexMatcher>(&step.pattern);
    const auto* const is_match = std::get_if<bool (*)(char32_t)>(&step.pattern);
    const bool is_digits = is_match != nullptr && *is_match == is_number;
    if (regex == nullptr && !is_digits) return nullptr;
    steps.emplace_back(is_digits ? KnownSequence::kDigits : regex->pattern());
  }
  if (!parts.words.empty()) steps.push_back(parts.words);
  return find_known_sequence(steps);
}

/// Reads the kinds one by one into a PreTokenizer.
class Reader {
 public:
  Status read(const JsonPart& part) {
    MEG_ASSIGN_OR_RETURN(const std::string_view type, part.type());
    if (type == "Sequence") return read_sequence(part);
    const bool writes_text = type == "ByteLevel" || type == "Metaspace";
    if (result_.add_prefix_space || (writes_text && (result_.metaspace || result_.byte_level))) {
      return part.unsupported(fmt::format("{} after {}", text::printable_name(type),
                                          result_.metaspace ? "Metaspace"
                                          : result_.add_prefix_space
                                              ? "ByteLevel with add_prefix_space"
                                              : "ByteLevel"));
    }
    if (type == "ByteLevel") return read_byte_level(part);
    if (type == "Split") return read_split(part);
    if (type == "Digits") return read_digits(part);
    if (type == "Punctuation") return read_punctuation(part);
    if (type == "WhitespaceSplit") return add_class(is_space, SplitBehavior::kRemoved, part);
    if (type == "Whitespace") return add_classes(is_word, SplitBehavior::kContiguous, part);
    if (type == "BertPreTokenizer") {
      return add_classes(is_punctuation, SplitBehavior::kIsolated, part);
    }
    if (type == "UnicodeScripts") return read_scripts(part);
    if (type == "CharDelimiterSplit") return read_delimiter(part);
    if (type == "FixedLength") return read_fixed_length(part);
    if (type == "Metaspace") return read_metaspace(part);
    return part.unsupported(text::printable_name(type));
  }

  /// A pre-tokenizer whose words are first found by `words`, a known pattern.
  Status read_behind(std::string_view words, const JsonPart& part) {
    MEG_ASSIGN_OR_RETURN(const std::string_view type, part.type());
    if (type == "Metaspace") return part.unsupported("fix_mistral_regex of Metaspace");
    result_.words = words;
    return type == "Sequence" ? read_sequence(part, 1) : read(part);
  }

  PreTokenizer result() && {
    result_.known_steps = known_steps(result_);
    return std::move(result_);
  }

 private:
  Status read_sequence(const JsonPart& part, size_t first = 0) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "pretokenizers"}));
    MEG_ASSIGN_OR_RETURN(const JsonPart list, part.member("pretokenizers"));
    MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
    if (items.size() < first) return list.corrupt("a pre-tokenizer");
    for (size_t i = first; i < items.size(); ++i) MEG_RETURN_IF_ERROR(read(items[i]));
    return {};
  }

  Status read_byte_level(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    MEG_ASSIGN_OR_RETURN(const bool use_regex, part.boolean("use_regex", true));
    MEG_ASSIGN_OR_RETURN(result_.add_prefix_space, part.boolean("add_prefix_space", true));
    result_.byte_level = true;
    if (use_regex) {
      MEG_RETURN_IF_ERROR(words_to_step(part));
      result_.words = kGpt2Pattern;
    } else if (result_.add_prefix_space) {
      return words_to_step(part);  // the space goes in front of every word
    }
    return {};
  }

  Status read_split(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "pattern", "behavior", "invert"}));
    MEG_ASSIGN_OR_RETURN(const JsonPart pattern_part, part.member("pattern"));
    MEG_RETURN_IF_ERROR(pattern_part.allow_only({"String", "Regex"}));
    MEG_ASSIGN_OR_RETURN(const JsonPart behavior_part, part.member("behavior"));
    MEG_ASSIGN_OR_RETURN(const SplitBehavior behavior, read_behavior(behavior_part));
    MEG_ASSIGN_OR_RETURN(const bool invert, part.boolean("invert", false));
    MEG_RETURN_IF_ERROR(words_to_step(part));
    const std::optional<JsonPart> regex = pattern_part.find("Regex");
    if (!regex) {
      MEG_ASSIGN_OR_RETURN(const std::string text, pattern_part.text("String", ""));
      if (text.empty()) return pattern_part.unsupported("an empty pattern");
      add({text, behavior, invert});
      return {};
    }
    MEG_ASSIGN_OR_RETURN(const std::string_view pattern, regex->text());
    // A known pattern matches everything, so that inverting and removing leave nothing to choose.
    if (find_known_pattern(pattern) != nullptr && !result_.byte_level && !result_.metaspace &&
        behavior != SplitBehavior::kContiguous && (behavior == SplitBehavior::kRemoved) == invert) {
      result_.words = pattern;
      return {};
    }
    return add_step(pattern, behavior, invert, part);
  }

  Status read_digits(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "individual_digits"}));
    MEG_ASSIGN_OR_RETURN(const bool individual, part.boolean("individual_digits", false));
    return add_class(is_number, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                     part);
  }

  Status read_punctuation(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "behavior"}));
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (const std::optional<JsonPart> named = part.find("behavior")) {
      MEG_ASSIGN_OR_RETURN(behavior, read_behavior(*named));
    }
    return add_class(is_punctuation, behavior, part);
  }

  Status read_scripts(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type"}));
    MEG_RETURN_IF_ERROR(words_to_step(part));
    add({ScriptBorders()});
    return {};
  }

  Status read_delimiter(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "delimiter"}));
    MEG_ASSIGN_OR_RETURN(const std::string delimiter, part.text("delimiter", ""));
    if (delimiter.empty()) return part.corrupt("a delimiter");
    MEG_RETURN_IF_ERROR(words_to_step(part));
    add({delimiter, SplitBehavior::kRemoved, false});
    return {};
  }

  Status read_fixed_length(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type", "length"}));
    MEG_ASSIGN_OR_RETURN(const JsonPart length, part.member("length"));
    MEG_ASSIGN_OR_RETURN(const int64_t characters, length.integer());
    constexpr int64_t kMost = 65535;  // repetitions of PCRE2
    if (characters < 1 || characters > kMost) return length.unsupported(length.json());
    return add_step(fmt::format("\\p{{Any}}{{1,{}}}", characters), SplitBehavior::kIsolated, false,
                    part);
  }

  Status read_metaspace(const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only(
        {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
    Metaspace metaspace;
    MEG_ASSIGN_OR_RETURN(metaspace.replacement, read_space_replacement(part));
    MEG_ASSIGN_OR_RETURN(metaspace.split, part.boolean("split", true));
    MEG_ASSIGN_OR_RETURN(const bool old, part.boolean("add_prefix_space", true));
    MEG_ASSIGN_OR_RETURN(const std::string scheme,
                         part.text("prepend_scheme", old ? "always" : "never"));
    if (scheme == "never") metaspace.prepend = Metaspace::Prepend::kNever;
    if (scheme == "first") metaspace.prepend = Metaspace::Prepend::kFirst;
    if (scheme != "never" && scheme != "first" && scheme != "always") {
      return part.unsupported(fmt::format("prepend_scheme {}", text::printable(scheme)));
    }
    MEG_RETURN_IF_ERROR(words_to_step(part));
    result_.metaspace = std::move(metaspace);
    return {};
  }

  Status add_class(bool (*is_match)(char32_t), SplitBehavior behavior, const JsonPart& part) {
    MEG_RETURN_IF_ERROR(words_to_step(part));
    add({is_match, behavior, false});
    return {};
  }

  /// Takes whitespace out and cuts what is left by a class.
  Status add_classes(bool (*is_match)(char32_t), SplitBehavior behavior, const JsonPart& part) {
    MEG_RETURN_IF_ERROR(part.allow_only({"type"}));
    MEG_RETURN_IF_ERROR(add_class(is_space, SplitBehavior::kRemoved, part));
    return add_class(is_match, behavior, part);
  }

  Status add_step(std::string_view pattern, SplitBehavior behavior, bool invert,
                  const JsonPart& part) {
    MEG_RETURN_IF_ERROR(words_to_step(part));
    MEG_ASSIGN_OR_RETURN(RegexMatcher matcher, RegexMatcher::compile(pattern, part.place()));
    add({std::move(matcher), behavior, invert});
    return {};
  }

  /// What comes after ByteLevel sees the characters that it has made of the bytes, and what comes
  /// after Metaspace the words that it has made.
  void add(SplitStep step) {
    if (result_.metaspace) {
      const Metaspace& metaspace = *result_.metaspace;
      if (result_.spaced_steps.empty() && metaspace.split) {
        result_.spaced_steps.push_back(
            {metaspace.replacement, SplitBehavior::kMergedWithNext, false});
      }
      result_.spaced_steps.push_back(std::move(step));
      return;
    }
    step.in_alphabet = result_.byte_level;
    result_.steps.push_back(std::move(step));
  }

  /// The words found so far are cut further.
  Status words_to_step(const JsonPart& part) {
    if (result_.words.empty()) return {};
    const std::string pattern = std::exchange(result_.words, {});
    MEG_ASSIGN_OR_RETURN(RegexMatcher matcher, RegexMatcher::compile(pattern, part.place()));
    result_.steps.push_back({std::move(matcher), SplitBehavior::kIsolated, false});
    return {};
  }

  PreTokenizer result_;
};

}  // namespace

Result<std::string> read_space_replacement(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(std::string replacement, part.text("replacement", Metaspace().replacement));
  if (count_characters(replacement) == 1) return replacement;
  return part.unsupported("a replacement that is not one character");
}

Status split_text(const SplitStep& step, std::string_view text,
                  const std::function<Status(std::string_view part)>& emit) {
  if (step.in_alphabet) return split_in_alphabet(step, text, emit);
  // Gemma's files cut at spaces after they have replaced them all.
  const auto* const wanted = std::get_if<std::string>(&step.pattern);
  if (wanted != nullptr && !step.invert && text.find(*wanted) == std::string_view::npos) {
    return emit(text);
  }
  return emit_parts(step, text, [&](const Part& part) {
    return emit(text.substr(part.begin, part.end - part.begin));
  });
}

Result<PreTokenizer> read_pre_tokenizer(const JsonPart& part) {
  Reader reader;
  MEG_RETURN_IF_ERROR(reader.read(part));
  PreTokenizer result = std::move(reader).result();
  result.json = part.json();
  return result;
}

Result<PreTokenizer> read_mistral_pre_tokenizer(const JsonPart& part) {
  const std::string_view pattern = find_pattern_by_name("v2")->regex;
  Reader reader;
  MEG_RETURN_IF_ERROR(reader.read_behind(pattern, part));
  PreTokenizer result = std::move(reader).result();
  result.json = fmt::format("{} {}", pattern, part.json());
  return result;
}

}  // namespace meg::tokenizer
