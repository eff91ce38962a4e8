#include "libmeg/tokenizer/models/internal/whole_word_models.h"

#include <algorithm>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::tokenizer {
namespace {

constexpr int32_t kNone = -1;

int32_t id_of(const Vocabulary& vocabulary, std::string_view token) {
  const int32_t entry = vocabulary.find(token);
  return entry < 0 ? kNone : vocabulary.entries()[static_cast<size_t>(entry)].id;
}

std::vector<PieceTrie::Entry> entries_of(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (const Vocabulary::Entry& entry : vocabulary.entries()) {
    entries.emplace_back(entry.text, entry.id);
  }
  return entries;
}

std::unordered_map<std::string, int32_t> ids_of(const Vocabulary& vocabulary) {
  std::unordered_map<std::string, int32_t> ids;
  for (const Vocabulary::Entry& entry : vocabulary.entries()) ids.emplace(entry.text, entry.id);
  return ids;
}

Status not_known(const std::string& place, std::string_view unknown, std::string_view word) {
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected words of the vocabulary, which has no unk_token {}, found {}",
                    place, text::printable(unknown), text::printable(word));
}

}  // namespace

class WordPieceWords::Segmenter : public WordSegmenter {
 public:
  explicit Segmenter(const WordPieceWords& words) : words_(words) {}

  Status segment(std::string_view word, std::vector<int32_t>& ids) override {
    const auto characters = std::count_if(
        word.begin(), word.end(), [](char byte) { return !text::is_continuation_byte(byte); });
    words_.model_.segment(word, static_cast<size_t>(characters),
                          [&ids](int32_t id) { ids.push_back(id); });
    if (ids.back() != kNone) return {};
    return not_known(words_.options_.place, words_.options_.unknown_token, word);
  }

 private:
  const WordPieceWords& words_;
};

WordPieceWords::WordPieceWords(const Vocabulary& vocabulary, const Options& options)
    : options_(options),
      model_(entries_of(vocabulary), {.unknown_id = id_of(vocabulary, options.unknown_token),
                                      .max_characters = options.max_characters,
                                      .continuation = options.continuation}) {}

std::unique_ptr<WordSegmenter> WordPieceWords::new_segmenter() const {
  return std::make_unique<Segmenter>(*this);
}

std::string WordPieceWords::token_bytes(std::string_view token) const {
  if (token.starts_with(options_.continuation)) token.remove_prefix(options_.continuation.size());
  return std::string(token);
}

class WordLevelModel::Segmenter : public WordSegmenter {
 public:
  explicit Segmenter(const WordLevelModel& model) : model_(model) {}

  Status segment(std::string_view word, std::vector<int32_t>& ids) override {
    auto found = model_.ids_.find(std::string(word));
    if (found == model_.ids_.end()) found = model_.ids_.find(model_.unknown_token_);
    if (found == model_.ids_.end()) return not_known(model_.place_, model_.unknown_token_, word);
    ids.push_back(found->second);
    return {};
  }

 private:
  const WordLevelModel& model_;
};

WordLevelModel::WordLevelModel(const Vocabulary& vocabulary, std::string unknown_token,
                               std::string place)
    : ids_(ids_of(vocabulary)),
      unknown_token_(std::move(unknown_token)),
      place_(std::move(place)) {}

std::unique_ptr<WordSegmenter> WordLevelModel::new_segmenter() const {
  return std::make_unique<Segmenter>(*this);
}

}  // namespace meg::tokenizer
