#include "libmeg/tokenizer/models/internal/sentencepiece/reference/bpe.h"

#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/text/utf8.h"

namespace meg::tokenizer::sentencepiece::reference {

namespace {

/// The library's algorithm with its queue: pairs are put in when they become neighbours and looked
/// at again when they come out, since a part may have grown meanwhile (is_current()). Parts are a
/// linked list over the text, so joining copies nothing.
class Merging {
 public:
  explicit Merging(const Model& model) : model_(model) {}

  std::vector<Segment> run(std::string_view text) {
    split(text);
    for (int i = 0; i + 1 < static_cast<int>(parts_.size()); ++i) consider(i, i + 1);
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      if (is_current(pair)) join(pair.left, pair.right);
    }
    std::vector<Segment> found;
    if (parts_.empty()) return found;
    for (int i = 0; i != kNone; i = at(i).next) append(at(i).text, 0, found);
    return found;
  }

 private:
  static constexpr int kNone = -1;

  /// The library goes no deeper into unused pieces.
  static constexpr int kMaxDepth = 100;

  struct Part {
    std::string_view text;  // empty once it is joined with the part before it
    bool frozen;            // a user-defined symbol
    int previous, next;
  };

  struct Pair {
    float score;
    int left, right;
    size_t size;  // of both texts

    /// Says what std::priority_queue wants: whether the other comes first.
    bool operator<(const Pair& other) const {
      if (is_better(other.score, score)) return true;
      return !is_better(score, other.score) && other.left < left;
    }
  };

  Part& at(int i) { return parts_[static_cast<size_t>(i)]; }

  void split(std::string_view text) {
    while (!text.empty()) {
      const size_t symbol = model_.user_symbols().longest_prefix(text, kMaxSymbolMatches);
      const size_t size = symbol > 0 ? symbol : text::character_size(text[0]);
      const int i = static_cast<int>(parts_.size());
      parts_.push_back({text.substr(0, size), symbol > 0, i - 1, i + 1});
      text.remove_prefix(size);
    }
    if (!parts_.empty()) parts_.back().next = kNone;
  }

  static std::string_view joined(const Part& left, const Part& right) {
    return {left.text.data(), left.text.size() + right.text.size()};
  }

  void consider(int left, int right) {
    if (left == kNone || right == kNone || at(left).frozen || at(right).frozen) return;
    const std::string_view text = joined(at(left), at(right));
    const std::optional<int32_t> id = model_.find_ordinary(text);
    if (!id) return;
    const Piece& piece = model_.pieces()[static_cast<size_t>(*id)];
    pairs_.push({piece.score, left, right, text.size()});
    // Unused pieces take part in joining, since longer used ones are made of them, and come apart
    // in the end.
    if (piece.type == PieceType::kUnused) halves_[text] = {at(left).text, at(right).text};
  }

  bool is_current(const Pair& pair) {
    const size_t left = at(pair.left).text.size();
    const size_t right = at(pair.right).text.size();
    return left > 0 && right > 0 && left + right == pair.size;
  }

  void join(int left, int right) {
    at(left).text = joined(at(left), at(right));
    at(left).next = at(right).next;
    if (at(right).next != kNone) at(at(right).next).previous = left;
    at(right).text = {};
    consider(at(left).previous, left);
    consider(left, at(left).next);
  }

  void append(std::string_view text, int depth, std::vector<Segment>& found) const {
    const std::optional<int32_t> id = model_.find_ordinary(text);
    if (!id) {
      found.push_back({text, Segment::kUnknown});
      return;
    }
    const bool unused = model_.pieces()[static_cast<size_t>(*id)].type == PieceType::kUnused;
    const auto halves = halves_.find(text);
    if (!unused || depth > kMaxDepth || halves == halves_.end()) {
      found.push_back({text, unused && depth <= kMaxDepth ? Segment::kUnknown : *id});
      return;
    }
    append(halves->second.first, depth + 1, found);
    append(halves->second.second, depth + 1, found);
  }

  const Model& model_;
  std::vector<Part> parts_;
  std::priority_queue<Pair> pairs_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves_;
};

}  // namespace

std::vector<Segment> merge(const Model& model, std::string_view normalized) {
  return Merging(model).run(normalized);
}

}  // namespace meg::tokenizer::sentencepiece::reference
