#include "libmeg/tokenizer/models/internal/sentencepiece/reference/normalize.h"

#include "libmeg/tokenizer/models/internal/sentencepiece/normalizing_step.h"

namespace meg::tokenizer::sentencepiece::reference {

namespace {

struct Rules {
  const NormalizerSpec& spec;
  const Charsmap& charsmap;
  const PieceTrie& user_symbols;
  bool whitespace_as_suffix;
};

std::string normalize_by(const Rules& rules, std::string_view text) {
  const bool collapses = rules.spec.remove_extra_whitespaces;
  const std::string_view space = rules.spec.escape_whitespaces ? kSpaceSymbol : " ";
  while (collapses && !text.empty()) {
    const NormalizingStep step = first_step(rules.charsmap, rules.user_symbols, text);
    if (step.normalized != " ") break;
    text.remove_prefix(step.size);
  }
  std::string out;
  if (text.empty()) return out;
  if (rules.spec.add_dummy_prefix && !rules.whitespace_as_suffix) out += space;
  bool after_space = collapses;
  while (!text.empty()) {
    NormalizingStep step = first_step(rules.charsmap, rules.user_symbols, text);
    text.remove_prefix(step.size);
    while (after_space && step.normalized.starts_with(' ')) step.normalized.remove_prefix(1);
    for (const char byte : step.normalized) {
      if (byte == ' ') {
        out += space;
      } else {
        out += byte;
      }
    }
    if (!step.normalized.empty()) after_space = collapses && step.normalized.ends_with(' ');
  }
  while (collapses && out.ends_with(space)) out.resize(out.size() - space.size());
  if (rules.spec.add_dummy_prefix && rules.whitespace_as_suffix) out += space;
  return out;
}

}  // namespace

std::string normalize(const Model& model, std::string_view text) {
  const ModelFile& file = model.file();
  return normalize_by(Rules{file.normalizer, model.charsmap(), model.user_symbols(),
                            file.treat_whitespace_as_suffix},
                      text);
}

std::string denormalize(const Model& model, std::string_view text) {
  return normalize_by(
      Rules{*model.file().denormalizer, model.denormalizer_charsmap(), PieceTrie(), false}, text);
}

}  // namespace meg::tokenizer::sentencepiece::reference
