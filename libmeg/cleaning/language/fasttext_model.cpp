#include "libmeg/cleaning/language/fasttext_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "libmeg/io/mapped_file.h"
#include "libmeg/text/utf8.h"

// The format is that of fastText's saveModel(): settings, dictionary, input matrix, output matrix.
// Nothing is allocated that the file only claims: matrices stay in the mapped file, and entries of
// the dictionary are counted as they are found.

namespace meg::cleaning {
namespace {

constexpr int32_t kMagic = 793712314;
constexpr int32_t kVersion = 12;
constexpr int32_t kSupervised = 3;
constexpr int32_t kMostNgram = 64;
constexpr std::string_view kEndOfText = "</s>";
constexpr std::string_view kLabelPrefix = "__label__";

enum Loss : int32_t {
  kHierarchicalSoftmax = 1,
  kNegativeSampling = 2,
  kSoftmax = 3,
  kOneVsAll = 4
};

Status corrupt(std::string_view expected) {
  return make_error(StatusCode::kCorruption, "expected a model of fastText, found one {}",
                    expected);
}

/// Reads a mapped file from its begin on.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Number>
  Status take(Number& number) {
    static_assert(std::is_trivially_copyable_v<Number>);
    MEG_ASSIGN_OR_RETURN(const auto bytes, take_bytes(sizeof(number)));
    std::memcpy(&number, bytes.data(), sizeof(number));
    return {};
  }

  Result<std::span<const std::byte>> take_bytes(int64_t size) {
    if (size < 0 || size > std::ssize(bytes_)) return corrupt("that ends early");
    const auto taken = bytes_.first(static_cast<size_t>(size));
    bytes_ = bytes_.subspan(static_cast<size_t>(size));
    return taken;
  }

  /// Up to a zero byte.
  Result<std::string_view> take_text() {
    const auto end = std::find(bytes_.begin(), bytes_.end(), std::byte{0});
    if (end == bytes_.end()) return corrupt("that ends early");
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()),
                                static_cast<size_t>(end - bytes_.begin()));
    bytes_ = bytes_.subspan(text.size() + 1);
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
};

float float_at(std::span<const std::byte> floats, int64_t index) {
  float value = 0;
  std::memcpy(&value, floats.data() + static_cast<size_t>(index) * sizeof(value), sizeof(value));
  return value;
}

/// Vectors as the numbers of centroids of their parts.
struct Quantizer {
  static constexpr int64_t kCentroids = 256;

  Status read(Reader& reader) {
    MEG_RETURN_IF_ERROR(reader.take(dim));
    MEG_RETURN_IF_ERROR(reader.take(parts));
    MEG_RETURN_IF_ERROR(reader.take(part_size));
    MEG_RETURN_IF_ERROR(reader.take(last_size));
    const bool fits = dim > 0 && parts > 0 && part_size > 0 && last_size > 0 &&
                      int64_t{parts - 1} * part_size + last_size == dim;
    if (!fits) return corrupt("whose quantized parts do not make its vectors");
    MEG_ASSIGN_OR_RETURN(centroids, reader.take_bytes(dim * kCentroids * 4));
    return {};
  }

  /// Calls take(element, value) for the vector with these codes, one a part.
  template <class Take>
  void visit(std::span<const std::byte> codes, Take take) const {
    for (int32_t part = 0; part < parts; ++part) {
      const auto code = static_cast<int64_t>(codes[static_cast<size_t>(part)]);
      const int64_t size = part == parts - 1 ? last_size : part_size;
      const int64_t begin = part * kCentroids * part_size + code * size;
      for (int64_t i = 0; i < size; ++i) {
        take(part * part_size + i, float_at(centroids, begin + i));
      }
    }
  }

  int32_t dim = 0, parts = 0, part_size = 0, last_size = 0;
  std::span<const std::byte> centroids;
};

class Matrix {
 public:
  Status read(Reader& reader, bool is_quantized) {
    is_quantized_ = is_quantized;
    uint8_t has_norms = 0;
    if (is_quantized) MEG_RETURN_IF_ERROR(reader.take(has_norms));
    MEG_RETURN_IF_ERROR(reader.take(rows_));
    MEG_RETURN_IF_ERROR(reader.take(columns_));
    constexpr int64_t kMost = int64_t{1} << 31;
    if (rows_ < 1 || columns_ < 1 || rows_ > kMost || columns_ > (int64_t{1} << 20)) {
      return corrupt("with a matrix of no or too many rows");
    }
    if (!is_quantized) {
      MEG_ASSIGN_OR_RETURN(values_, reader.take_bytes(rows_ * columns_ * 4));
      return {};
    }
    int32_t code_bytes = 0;
    MEG_RETURN_IF_ERROR(reader.take(code_bytes));
    MEG_ASSIGN_OR_RETURN(values_, reader.take_bytes(code_bytes));
    MEG_RETURN_IF_ERROR(quantizer_.read(reader));
    if (quantizer_.dim != columns_ || code_bytes != rows_ * quantizer_.parts) {
      return corrupt("whose quantized rows are not as many as it says");
    }
    if (has_norms == 0) return {};
    MEG_ASSIGN_OR_RETURN(norms_, reader.take_bytes(rows_));
    MEG_RETURN_IF_ERROR(norm_quantizer_.read(reader));
    return norm_quantizer_.dim == 1 ? Status() : corrupt("with norms of several numbers");
  }

  int64_t rows() const { return rows_; }

  int64_t columns() const { return columns_; }

  /// Adds a row to `vector`.
  void add_row(int64_t row, std::span<float> vector) const {
    const float norm = norm_of(row);
    visit_row(row, [&](int64_t i, float value) { vector[static_cast<size_t>(i)] += norm * value; });
  }

  float dot_row(int64_t row, std::span<const float> vector) const {
    float sum = 0;
    visit_row(row, [&](int64_t i, float value) { sum += vector[static_cast<size_t>(i)] * value; });
    return sum * norm_of(row);
  }

 private:
  template <class Take>
  void visit_row(int64_t row, Take take) const {
    if (is_quantized_) {
      const auto parts = static_cast<size_t>(quantizer_.parts);
      return quantizer_.visit(values_.subspan(static_cast<size_t>(row) * parts, parts), take);
    }
    const auto values = values_.subspan(static_cast<size_t>(row * columns_ * 4));
    for (int64_t i = 0; i < columns_; ++i) take(i, float_at(values, i));
  }

  float norm_of(int64_t row) const {
    if (norms_.empty()) return 1;
    float norm = 1;
    norm_quantizer_.visit(norms_.subspan(static_cast<size_t>(row), 1),
                          [&](int64_t, float value) { norm = value; });
    return norm;
  }

  bool is_quantized_ = false;
  int64_t rows_ = 0, columns_ = 0;
  std::span<const std::byte> values_, norms_;  // codes where it is quantized
  Quantizer quantizer_, norm_quantizer_;
};

/// FNV-1a, with bytes as signed numbers.
uint32_t hash_of(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<uint32_t>(static_cast<int8_t>(byte))) * 16777619U;
  }
  return hash;
}

float log_of(float x) { return static_cast<float>(std::log(x + 1e-5)); }

float sigmoid(float x) { return static_cast<float>(1.0 / (1 + std::exp(-x))); }

/// What fastText looks up for labels that are judged one by one: the sigmoid of the multiple of
/// 1/32 at or below x, 0 and 1 beyond 8. Not a number gives 0.
float tabled_sigmoid(float x) {
  constexpr float kMost = 8, kStepsPerUnit = 32;
  if (!(x >= -kMost)) return 0;
  if (x > kMost) return 1;
  return sigmoid(std::floor((x + kMost) * kStepsPerUnit) / kStepsPerUnit - kMost);
}

}  // namespace

struct FastTextModel::State {
  Status read_settings(Reader& reader);
  Status read_dictionary(Reader& reader);
  Status check() const;
  void build_tree(std::span<const int64_t> counts);
  void find_rows(std::string_view text, Scratch& scratch) const;
  void add_word(std::string_view word, Scratch& scratch) const;
  void add_subwords(std::string_view word, Scratch& scratch) const;
  void add_bucket(uint64_t bucket, Scratch& scratch) const;
  void score_tree(Scratch& scratch, std::vector<float>& scores) const;

  io::MappedFile file;
  int32_t dim = 0, word_ngrams = 0, loss = 0, buckets = 0, min_ngram = 0, max_ngram = 0;
  int32_t words = 0;
  std::unordered_map<std::string_view, int32_t> word_rows;
  std::vector<std::string> labels;
  bool is_pruned = false;
  std::unordered_map<int32_t, int32_t> kept_buckets;  // of a pruned model
  Matrix input, output;

  // A binary tree over the labels: leaves first, the root last.
  struct Node {
    int32_t left = -1, right = -1;
  };

  std::vector<int64_t> label_counts;
  std::vector<Node> tree;
};

Status FastTextModel::State::read_settings(Reader& reader) {
  int32_t magic = 0, version = 0, epoch = 0, window = 0, min_count = 0, negatives = 0, model = 0,
          rate = 0;
  double sampling = 0;
  for (int32_t* const number : {&magic, &version}) MEG_RETURN_IF_ERROR(reader.take(*number));
  if (magic != kMagic) return corrupt("that begins otherwise");
  if (version != kVersion && version != kVersion - 1) {
    return make_error(StatusCode::kUnsupported, "expected version 11 or 12, found {}", version);
  }
  for (int32_t* const number : {&dim, &window, &epoch, &min_count, &negatives, &word_ngrams, &loss,
                                &model, &buckets, &min_ngram, &max_ngram, &rate}) {
    MEG_RETURN_IF_ERROR(reader.take(*number));
  }
  MEG_RETURN_IF_ERROR(reader.take(sampling));
  if (model != kSupervised) {
    return make_error(StatusCode::kUnsupported,
                      "expected a classifier (supervised), found vectors of words");
  }
  if (version < kVersion) max_ngram = 0;
  if (loss < kHierarchicalSoftmax || loss > kOneVsAll) return corrupt("of an unknown loss");
  if (word_ngrams > kMostNgram || max_ngram > kMostNgram) {
    return make_error(StatusCode::kUnsupported, "expected n-grams of at most {}, found {}",
                      kMostNgram, std::max(word_ngrams, max_ngram));
  }
  const bool has_buckets = word_ngrams > 1 || max_ngram > 0;
  if (buckets < 0 || (has_buckets && buckets == 0)) return corrupt("without buckets of n-grams");
  return {};
}

Status FastTextModel::State::read_dictionary(Reader& reader) {
  int32_t size = 0, label_count = 0;
  int64_t tokens = 0, pruned = 0;
  MEG_RETURN_IF_ERROR(reader.take(size));
  MEG_RETURN_IF_ERROR(reader.take(words));
  MEG_RETURN_IF_ERROR(reader.take(label_count));
  MEG_RETURN_IF_ERROR(reader.take(tokens));
  MEG_RETURN_IF_ERROR(reader.take(pruned));
  if (words < 0 || label_count < 1 || int64_t{words} + label_count != size) {
    return corrupt("whose words and labels are not as many as it says");
  }
  for (int32_t i = 0; i < size; ++i) {
    MEG_ASSIGN_OR_RETURN(std::string_view text, reader.take_text());
    int64_t count = 0;
    uint8_t is_label = 0;
    MEG_RETURN_IF_ERROR(reader.take(count));
    MEG_RETURN_IF_ERROR(reader.take(is_label));
    if ((is_label != 0) != (i >= words)) return corrupt("with labels among its words");
    if (is_label == 0) {
      word_rows.emplace(text, i);
      continue;
    }
    if (text.starts_with(kLabelPrefix)) text.remove_prefix(kLabelPrefix.size());
    labels.emplace_back(text);
    label_counts.push_back(count);
  }
  is_pruned = pruned >= 0;
  for (int64_t i = 0; i < pruned; ++i) {
    int32_t bucket = 0, kept = 0;
    MEG_RETURN_IF_ERROR(reader.take(bucket));
    MEG_RETURN_IF_ERROR(reader.take(kept));
    if (kept < 0) return corrupt("with a row before the first one");
    kept_buckets[bucket] = kept;
  }
  return {};
}

/// Whether the matrices have all rows that may be asked for.
Status FastTextModel::State::check() const {
  int64_t rows = words;
  if (!is_pruned) rows += word_ngrams > 1 || max_ngram > 0 ? buckets : 0;
  for (const auto& [bucket, kept] : kept_buckets) {
    rows = std::max(rows, int64_t{words} + kept + 1);
  }
  if (input.rows() < rows || output.rows() < std::ssize(labels) || input.columns() != dim ||
      output.columns() != dim) {
    return corrupt("whose matrices do not fit its dictionary");
  }
  return {};
}

/// As fastText's: labels come by falling counts.
void FastTextModel::State::build_tree(std::span<const int64_t> counts) {
  const auto leaves = static_cast<int32_t>(counts.size());
  tree.resize(2 * counts.size() - 1);
  std::vector<int64_t> sums(tree.size(), int64_t{1'000'000'000'000'000});
  std::copy(counts.begin(), counts.end(), sums.begin());
  const auto sum_of = [&sums](int32_t node) -> int64_t& { return sums[static_cast<size_t>(node)]; };
  int32_t leaf = leaves - 1, inner = leaves;
  for (int32_t node = leaves; node < std::ssize(tree); ++node) {
    const auto take_least = [&] {
      const bool is_leaf = leaf >= 0 && (inner >= node || sum_of(leaf) < sum_of(inner));
      return is_leaf ? leaf-- : inner++;
    };
    Node& made = tree[static_cast<size_t>(node)];
    made.left = take_least();
    made.right = take_least();
    sum_of(node) = static_cast<int64_t>(static_cast<uint64_t>(sum_of(made.left)) +
                                        static_cast<uint64_t>(sum_of(made.right)));
  }
}

void FastTextModel::State::add_bucket(uint64_t bucket, Scratch& scratch) const {
  auto row = static_cast<int32_t>(bucket);
  if (is_pruned) {
    const auto kept = kept_buckets.find(row);
    if (kept == kept_buckets.end()) return;
    row = kept->second;
  }
  scratch.rows.push_back(words + row);
}

/// word: with `<` and `>` around it.
void FastTextModel::State::add_subwords(std::string_view word, Scratch& scratch) const {
  for (size_t begin = 0; begin < word.size(); ++begin) {
    if (text::is_continuation_byte(word[begin])) continue;
    size_t end = begin;
    for (int32_t count = 1; end < word.size() && count <= max_ngram; ++count) {
      do {
        ++end;
      } while (end < word.size() && text::is_continuation_byte(word[end]));
      const bool is_bracket = count == 1 && (begin == 0 || end == word.size());
      if (count < min_ngram || is_bracket) continue;
      add_bucket(hash_of(word.substr(begin, end - begin)) % static_cast<uint32_t>(buckets),
                 scratch);
    }
  }
}

void FastTextModel::State::add_word(std::string_view word, Scratch& scratch) const {
  const auto found = word_rows.find(word);
  if (found != word_rows.end()) {
    scratch.rows.push_back(found->second);
  } else if (word.starts_with(kLabelPrefix)) {
    return;  // It names a label and is no word.
  }
  scratch.hashes.push_back(static_cast<int32_t>(hash_of(word)));
  if (max_ngram < 1 || word == kEndOfText) return;
  scratch.word.assign("<").append(word) += '>';
  add_subwords(scratch.word, scratch);
}

void FastTextModel::State::find_rows(std::string_view text, Scratch& scratch) const {
  constexpr std::string_view kSpace(" \n\r\t\v\f\0", 7);
  scratch.rows.clear();
  scratch.hashes.clear();
  for (size_t begin = 0; begin < text.size();) {
    begin = std::min(text.find_first_not_of(kSpace, begin), text.size());
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    if (end == begin) break;
    const std::string_view word = text.substr(begin, end - begin);
    add_word(word, scratch);
    begin = end;
    if (word == kEndOfText) break;
  }
  add_word(kEndOfText, scratch);
  for (size_t i = 0; i < scratch.hashes.size() && word_ngrams > 1; ++i) {
    auto hash = static_cast<uint64_t>(int64_t{scratch.hashes[i]});
    const size_t end = std::min(scratch.hashes.size(), i + static_cast<size_t>(word_ngrams));
    for (size_t j = i + 1; j < end; ++j) {
      hash = hash * 116049371 + static_cast<uint64_t>(int64_t{scratch.hashes[j]});
      add_bucket(hash % static_cast<uint64_t>(buckets), scratch);
    }
  }
}

/// Children come before their parents.
void FastTextModel::State::score_tree(Scratch& scratch, std::vector<float>& scores) const {
  const size_t leaves = labels.size();
  std::vector<float>& nodes = scratch.nodes;
  nodes.assign(tree.size(), 0);
  for (size_t i = tree.size(); i-- > leaves;) {
    const float right = sigmoid(output.dot_row(static_cast<int64_t>(i - leaves), scratch.hidden));
    nodes[static_cast<size_t>(tree[i].left)] = nodes[i] + log_of(1 - right);
    nodes[static_cast<size_t>(tree[i].right)] = nodes[i] + log_of(right);
  }
  for (size_t i = 0; i < leaves; ++i) scores[i] = std::exp(nodes[i]);
}

FastTextModel::FastTextModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

FastTextModel::FastTextModel(FastTextModel&&) noexcept = default;
FastTextModel& FastTextModel::operator=(FastTextModel&&) noexcept = default;
FastTextModel::~FastTextModel() = default;

Result<FastTextModel> FastTextModel::open(const std::string& path) {
  auto state = std::make_unique<State>();
  MEG_ASSIGN_OR_RETURN(state->file, io::MappedFile::open(path));
  const auto read = [&]() -> Status {
    Reader reader(state->file.bytes());
    MEG_RETURN_IF_ERROR(state->read_settings(reader));
    MEG_RETURN_IF_ERROR(state->read_dictionary(reader));
    uint8_t is_quantized = 0, is_output_quantized = 0;
    MEG_RETURN_IF_ERROR(reader.take(is_quantized));
    MEG_RETURN_IF_ERROR(state->input.read(reader, is_quantized != 0));
    MEG_RETURN_IF_ERROR(reader.take(is_output_quantized));
    MEG_RETURN_IF_ERROR(state->output.read(reader, is_quantized != 0 && is_output_quantized != 0));
    return state->check();
  };
  MEG_RETURN_IF_ERROR(read().with_prefix(path));
  if (state->loss == kHierarchicalSoftmax) state->build_tree(state->label_counts);
  return FastTextModel(std::move(state));
}

const std::vector<std::string>& FastTextModel::labels() const { return state_->labels; }

void FastTextModel::predict(std::string_view text, Scratch& scratch,
                            std::vector<float>& scores) const {
  const State& state = *state_;
  scores.assign(state.labels.size(), 0);
  state.find_rows(text, scratch);
  if (scratch.rows.empty()) return;
  std::vector<float>& hidden = scratch.hidden;
  hidden.assign(static_cast<size_t>(state.dim), 0);
  for (const int32_t row : scratch.rows) state.input.add_row(row, hidden);
  const auto share = static_cast<float>(1.0 / static_cast<double>(scratch.rows.size()));
  for (float& value : hidden) value *= share;
  if (state.loss == kHierarchicalSoftmax) return state.score_tree(scratch, scores);
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = state.output.dot_row(static_cast<int64_t>(i), hidden);
  }
  if (state.loss == kSoftmax) {
    const float most = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - most);
    for (float& score : scores) score /= sum;
  } else {
    for (float& score : scores) score = tabled_sigmoid(score);
  }
  for (float& score : scores) score = std::exp(log_of(score));
}

}  // namespace meg::cleaning
