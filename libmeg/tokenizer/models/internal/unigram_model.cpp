#include "libmeg/tokenizer/models/internal/unigram_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model_builder.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

namespace meg::tokenizer {
namespace {

/// How much worse than the worst piece an unknown character is.
constexpr double kUnknownPenalty = 10;

constexpr int32_t kUnknown = -1;

PieceTrie trie_of(const std::vector<UnigramModel::Piece>& pieces) {
  std::vector<PieceTrie::Entry> entries;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].text.empty()) entries.emplace_back(pieces[id].text, static_cast<int32_t>(id));
  }
  return PieceTrie(std::move(entries));
}

double smallest_score(const std::vector<UnigramModel::Piece>& pieces) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto& piece : pieces) smallest = std::min(smallest, piece.score);
  return smallest;
}

std::optional<int32_t> find_whole(const PieceTrie& trie, std::string_view text) {
  int32_t id = 0;
  const size_t size = trie.longest_prefix(text, std::numeric_limits<int>::max(), &id);
  return size == text.size() ? std::optional(id) : std::nullopt;
}

}  // namespace

class UnigramModel::Segmenter : public WordSegmenter {
 public:
  explicit Segmenter(const UnigramModel& model) : model_(model) {}

  Status segment(std::string_view word, std::vector<int32_t>& ids) override {
    MEG_RETURN_IF_ERROR(find_best(word));
    parts_.clear();
    for (size_t end = word.size(); end > 0; end = best_[end].start) {
      parts_.push_back({best_[end].start, end, best_[end].id});
    }
    std::reverse(parts_.begin(), parts_.end());
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].id != kUnknown) {
        ids.push_back(parts_[i].id);
        continue;
      }
      const size_t begin = parts_[i].begin;
      while (i + 1 < parts_.size() && parts_[i + 1].id == kUnknown) ++i;
      add_unknown(word.substr(begin, parts_[i].end - begin), ids);
    }
    return {};
  }

 private:
  /// The best way to the end of a part of the word.
  struct Best {
    double score;
    size_t start;  // of its last part; kNoStart where there is no way
    int32_t id;
  };

  struct Part {
    size_t begin, end;
    int32_t id;
  };

  static constexpr size_t kNoStart = std::numeric_limits<size_t>::max();

  /// An error where the package has one: also where a way around the unknown character is better.
  Status find_best(std::string_view word) {
    const PieceTrie& trie = model_.trie_;
    best_.assign(word.size() + 1, {0, kNoStart, kUnknown});
    size_t size = 0;
    for (size_t start = 0; start < word.size(); start += size) {
      const double here = best_[start].score;
      size = text::character_size(word[start]);
      bool has_character = false;
      uint32_t node = trie.first(static_cast<unsigned char>(word[start]));
      for (size_t end = start + 1; node != PieceTrie::kNoNode; ++end) {
        const int32_t id = trie.value(node);
        if (id != PieceTrie::kNoValue) {
          // The unknown piece, where a text spells it, is unknown text.
          const double score = model_.scores_[static_cast<size_t>(id)];
          offer(end, score + here, start, id == model_.options_.unknown_id ? kUnknown : id);
          has_character |= end == start + size;
        }
        if (end == word.size()) break;
        node = trie.next(node, static_cast<unsigned char>(word[end]));
      }
      if (has_character) continue;
      const bool taken = offer(start + size, model_.unknown_score_ + here, start, kUnknown);
      if (!taken || model_.options_.unknown_id) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected characters of the vocabulary, which has no unk_id, found {}",
                        model_.options_.place, text::printable(word.substr(start, size)));
    }
    return {};
  }

  bool offer(size_t end, double score, size_t start, int32_t id) {
    Best& best = best_[end];
    if (best.start != kNoStart && !(score > best.score)) return false;
    best = {score, start, id};
    return true;
  }

  /// text: of one or several unknown parts that stand one after another.
  void add_unknown(std::string_view text, std::vector<int32_t>& ids) const {
    const Options& options = model_.options_;
    const auto byte_id = [&](char byte) {
      return model_.byte_ids_[static_cast<unsigned char>(byte)];
    };
    if (const std::optional<int32_t> whole = find_whole(model_.trie_, text)) {
      ids.push_back(*whole);
    } else if (options.byte_fallback && std::all_of(text.begin(), text.end(), byte_id)) {
      for (const char byte : text) ids.push_back(*byte_id(byte));
    } else {
      ids.push_back(*options.unknown_id);
    }
  }

  const UnigramModel& model_;
  std::vector<Best> best_;  // by the byte where a part ends
  std::vector<Part> parts_;
};

UnigramModel::UnigramModel(const std::vector<Piece>& pieces, Options options)
    : options_(std::move(options)),
      trie_(trie_of(pieces)),
      unknown_score_(smallest_score(pieces) - kUnknownPenalty) {
  for (const Piece& piece : pieces) scores_.push_back(piece.score);
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = find_whole(trie_, fmt::format("<0x{:02X}>", byte));
  }
}

std::unique_ptr<WordSegmenter> UnigramModel::new_segmenter() const {
  return std::make_unique<Segmenter>(*this);
}

std::string UnigramModel::token_bytes(std::string_view token) const {
  const std::optional<uint8_t> byte =
      options_.byte_fallback ? fallback_byte(token) : std::optional<uint8_t>();
  return byte ? std::string(1, static_cast<char>(*byte)) : std::string(token);
}

}  // namespace meg::tokenizer
