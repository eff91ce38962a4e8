#include "libmeg/tokenizer/models/internal/bpe/vocabulary.h"

#include <simdjson.h>

#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/json/internal/text_file.h"
#include "libmeg/tokenizer/words/internal/word_key.h"

namespace meg::tokenizer {

namespace {

uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

struct ObjectSize {
  size_t fields = 0;
  size_t key_bytes = 0;
};

/// simdjson's own size() stops counting at 2^24.
ObjectSize size_of(const simdjson::dom::object& object) {
  ObjectSize size;
  for (const auto field : object) {
    ++size.fields;
    size.key_bytes += field.key.size();
  }
  return size;
}

std::optional<int32_t> id_of(const simdjson::dom::element& value) {
  int64_t id = 0;
  if (value.get(id) != simdjson::SUCCESS) return std::nullopt;
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(id);
}

Status not_an_id(const std::string& name, std::string_view text,
                 const simdjson::dom::element& value) {
  return make_error(StatusCode::kCorruption,
                    "{}: id of {}: expected an integer from 0 to 2147483647, found {}", name,
                    text::printable(text), text::printable(simdjson::minify(value)));
}

}  // namespace

Result<Vocabulary> Vocabulary::parse(std::string_view json, const std::string& name) {
  json = without_byte_order_mark(json);
  MEG_RETURN_IF_ERROR(reject_empty_or_html(json, name, "a JSON object"));
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document)) {
    return make_error(StatusCode::kCorruption, "{}: expected a JSON object, found invalid JSON: {}",
                      name, simdjson::error_message(error));
  }
  return read(document, name);
}

Result<Vocabulary> Vocabulary::read(const simdjson::dom::element& json, const std::string& name) {
  simdjson::dom::object object;
  if (json.get(object) != simdjson::SUCCESS) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a JSON object of token -> id, found {}", name,
                      text::printable(simdjson::minify(json)));
  }
  Vocabulary vocabulary;
  const ObjectSize size = size_of(object);
  vocabulary.reserve(size.fields, size.key_bytes);
  for (const auto field : object) {
    const std::optional<int32_t> id = id_of(field.value);
    if (!id) return not_an_id(name, field.key, field.value);
    vocabulary.insert(field.key, *id);
  }
  if (vocabulary.entries_.empty()) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a JSON object of token -> id, found {{}}", name);
  }
  return vocabulary;
}

Vocabulary Vocabulary::of(const std::vector<Entry>& entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.text.size();
  Vocabulary vocabulary;
  vocabulary.reserve(entries.size(), bytes);
  for (const Entry& entry : entries) vocabulary.insert(entry.text, entry.id);
  return vocabulary;
}

void Vocabulary::reserve(size_t entries, size_t text_bytes) {
  texts_.reserve(text_bytes);  // so that the entries' views stay valid
  entries_.reserve(entries);
  // Keep it at most half full, so that every search ends at a free slot soon.
  slots_.assign(std::bit_ceil(2 * entries + 2), Slot{0, -1});
}

int32_t Vocabulary::find(std::string_view text) const {
  return slots_[slot_of(text, fast::hash_word(text))].entry;
}

void Vocabulary::insert(std::string_view text, int32_t id) {
  const uint64_t hash = fast::hash_word(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.entry >= 0) {
    // A repeated key keeps its first place and takes its last value, as in Python's dict.
    entries_[static_cast<size_t>(slot.entry)].id = id;
    return;
  }
  slot = {tag_of(hash), static_cast<int32_t>(entries_.size())};
  const char* copy = texts_.data() + texts_.size();
  texts_.insert(texts_.end(), text.begin(), text.end());
  entries_.push_back({{copy, text.size()}, id});
}

/// Where text is, or else the free slot where it belongs.
size_t Vocabulary::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  // Tags first: they rule out nearly every other text without a look at it.
  const auto is_other = [&](const Slot& slot) {
    return slot.tag != tag_of(hash) || entries_[static_cast<size_t>(slot.entry)].text != text;
  };
  size_t at = hash & mask;
  while (slots_[at].entry >= 0 && is_other(slots_[at])) at = (at + 1) & mask;
  return at;
}

}  // namespace meg::tokenizer
