#include "libmeg/preprocess/find_provenance.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "libmeg/dataset/provenance_writer.h"

// The documents of the dataset are hashed and sorted; then each document of the inputs is looked up
// while the inputs are tokenized. What does not match at all is explained after some documents, not
// after the last one of an input that takes hours.

namespace meg::preprocess {
namespace {

using dataset::DocumentPlace;
using dataset::IndexedDataset;
using Tokens = std::vector<int32_t>;

/// Documents of the inputs after which it is asked whether they are in the dataset, the tokens that
/// are kept of them meanwhile, and the share, one of so many, that should be there.
constexpr int64_t kTried = 1000;
constexpr size_t kMostMissedTokens = size_t{1} << 24;
constexpr int64_t kFewest = 20;
/// Documents of the dataset that are tokenized again to tell whether the tokenizer is theirs, and
/// the tokens of each.
constexpr int64_t kTokenizedAgain = 32;
constexpr size_t kTokensOfEach = 256;
/// Documents between two calls of progress.
constexpr int64_t kReported = 1 << 14;

struct Entry {
  uint64_t high = 0, low = 0;
  int64_t document = 0;

  auto key() const { return std::pair(high, low); }

  bool operator<(const Entry& other) const {
    return std::tuple(high, low, document) < std::tuple(other.high, other.low, other.document);
  }
};

Entry entry_of(std::span<const int32_t> tokens, std::span<const int32_t> lengths,
               int64_t document) {
  const XXH64_hash_t seed = XXH3_64bits(lengths.data(), lengths.size_bytes());
  const XXH128_hash_t hash = XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), seed);
  return {hash.high64, hash.low64, document};
}

/// Without regard to sequences.
uint64_t hash_of(std::span<const int32_t> tokens) {
  return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

std::span<const int32_t> without_last(std::span<const int32_t> tokens) {
  return tokens.first(tokens.empty() ? 0 : tokens.size() - 1);
}

class ProvenanceFinder {
 public:
  ProvenanceFinder(const IndexedDataset& set, const PreprocessOptions& options,
                   const tokenizer::Tokenizer& tokenizer, const ProgressCallback& progress)
      : set_(set), options_(options), tokenizer_(tokenizer), progress_(progress) {}

  Result<FoundProvenance> run() {
    MEG_RETURN_IF_ERROR(dataset::check_is_path(set_.prefix()));
    MEG_RETURN_IF_ERROR(hash_dataset());
    const auto visit = [this](const TokenizedDocument& document) { return look_up(document); };
    MEG_ASSIGN_OR_RETURN(VisitedDocuments visited,
                         visit_documents(options_, tokenizer_, visit, progress_));
    if (tried_ < kTried) MEG_RETURN_IF_ERROR(check_tried());
    if (hits_ == 0 && filled_documents_ > 0) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected documents of the inputs, found none of their {}",
                        set_.prefix(), visited.summary.documents);
    }
    share_places();
    MEG_RETURN_IF_ERROR(dataset::write_provenance(set_.prefix(), places_, visited.sources));
    found_.read = std::move(visited.summary);
    return std::move(found_);
  }

 private:
  /// The tokens of a document and the lengths of its sequences.
  Status read(int64_t document, Tokens& tokens, Tokens& lengths) const {
    MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange range, set_.document(document));
    tokens.clear();
    lengths.clear();
    for (int64_t at = range.begin; at < range.end; ++at) {
      MEG_ASSIGN_OR_RETURN(const int64_t length, set_.sequence_length(at));
      const size_t before = tokens.size();
      tokens.resize(before + static_cast<size_t>(length));
      MEG_RETURN_IF_ERROR(set_.copy_tokens(at, 0, std::span(tokens).subspan(before)));
      lengths.push_back(static_cast<int32_t>(length));
    }
    return {};
  }

  Status hash_dataset() {
    found_.documents = set_.document_count();
    entries_.reserve(static_cast<size_t>(found_.documents));
    places_.resize(static_cast<size_t>(found_.documents));
    taken_.resize(static_cast<size_t>(found_.documents));
    const int64_t ids =
        std::max<int64_t>(tokenizer_.vocab_size(), int64_t{tokenizer_.max_id()} + 1);
    Tokens tokens, lengths;
    for (int64_t document = 0; document < found_.documents; ++document) {
      MEG_RETURN_IF_ERROR(read(document, tokens, lengths));
      const auto [least, most] = std::ranges::minmax_element(tokens);
      filled_documents_ += tokens.empty() ? 0 : 1;
      if (!tokens.empty() && (*least < 0 || *most >= ids)) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: document {}: expected ids of the tokenizer, 0 to {}, found {}: it "
                          "is another tokenizer's",
                          set_.prefix(), document, ids - 1, *least < 0 ? *least : *most);
      }
      entries_.push_back(entry_of(tokens, lengths, document));
      if (document % kReported == 0 && progress_ && !progress_({})) {
        return {StatusCode::kCancelled, set_.prefix() + ": cancelled"};
      }
    }
    std::sort(entries_.begin(), entries_.end());
    return {};
  }

  Status look_up(const TokenizedDocument& read) {
    const Entry entry = entry_of(read.tokens, read.sequence_lengths, 0);
    const auto [begin, end] = std::ranges::equal_range(entries_, entry.key(), {}, &Entry::key);
    const bool is_there = begin != end;
    if (is_there) {
      // Of equal documents each has a place of its own, as long as there are such.
      uint32_t& taken = taken_[static_cast<size_t>(begin - entries_.begin())];
      if (taken < end - begin) {
        places_[static_cast<size_t>(begin[taken++].document)] = read.place;
      } else {
        ++found_.unused;
      }
    } else {
      ++found_.unused;
    }
    // An empty document says nothing.
    return read.tokens.empty() ? Status() : try_document(read, is_there);
  }

  Status try_document(const TokenizedDocument& read, bool is_there) {
    const std::span<const int32_t> tokens = read.tokens;
    hits_ += is_there ? 1 : 0;
    if (tried_ == kTried) return {};
    ++tried_;
    has_several_ = has_several_ || read.sequence_lengths.size() > 1;
    missed_tokens_ += is_there ? 0 : tokens.size();
    if (!is_there) missed_.emplace_back(tokens.begin(), tokens.end());
    if (missed_tokens_ > kMostMissedTokens) tried_ = kTried;
    return tried_ < kTried ? Status() : check_tried();
  }

  /// An error that says why hardly any document that was tried is in the dataset. OK where nothing
  /// is known to be wrong: the dataset may begin later in the inputs.
  Status check_tried() {
    const std::vector<Tokens> missed = std::move(missed_);
    if (missed.empty() || hits_ * kFewest > std::ssize(missed)) return {};
    std::unordered_set<uint64_t> whole, shorter;
    for (const Tokens& tokens : missed) {
      whole.insert(hash_of(tokens));
      if (tokens.size() > 1) shorter.insert(hash_of(without_last(tokens)));
    }
    int64_t longer = 0, cut = 0;  // documents that are there in another way
    int64_t several = 0;          // documents of several sequences
    Tokens tokens, lengths;
    for (int64_t document = 0; document < found_.documents; ++document) {
      MEG_RETURN_IF_ERROR(read(document, tokens, lengths));
      if (tokens.empty()) continue;
      several += lengths.size() > 1 ? 1 : 0;
      longer += whole.contains(hash_of(without_last(tokens))) ? 1 : 0;
      cut += shorter.contains(hash_of(tokens)) ? 1 : 0;
    }
    const auto wrong = [&](int64_t count, std::string_view why) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: of {} documents of the inputs it has {}: {} of its documents {}",
                        set_.prefix(), std::ssize(missed) + hits_, hits_, count, why);
    };
    if (std::max(longer, cut) * kFewest > std::ssize(missed)) {
      return longer > cut ? wrong(longer, "have one token more: it was made with `append_eod`")
                          : wrong(cut, "have one token less: it was made without `append_eod`");
    }
    if (has_several_ != (several > 0)) {
      return wrong(several, fmt::format("have several sequences, {} of the inputs: it was made {} "
                                        "`split_sentences`",
                                        has_several_ ? "and some" : "none",
                                        has_several_ ? "without" : "with"));
    }
    MEG_ASSIGN_OR_RETURN(const int64_t changed, changed_documents());
    if (changed == 0) return {};
    return wrong(changed,
                 "become other tokens when they are decoded and tokenized again: it was made with "
                 "another tokenizer");
  }

  /// How many of some documents of the dataset are not what the tokenizer makes of their own text,
  /// where that is most of them; else 0.
  Result<int64_t> changed_documents() const {
    std::unordered_set<int32_t> special;
    for (const tokenizer::SpecialToken& token : tokenizer_.special_tokens()) {
      special.insert(token.id);
    }
    if (const auto eod = tokenizer_.eod()) special.insert(*eod);
    const auto is_special = [&](int32_t id) { return special.contains(id); };
    int64_t changed = 0, compared = 0;
    Tokens tokens, lengths;
    const int64_t step = std::max<int64_t>(found_.documents / kTokenizedAgain, 1);
    for (int64_t document = 0; document < found_.documents; document += step) {
      MEG_RETURN_IF_ERROR(read(document, tokens, lengths));
      if (lengths.empty()) continue;
      tokens.resize(static_cast<size_t>(lengths.front()));
      std::erase_if(tokens, is_special);
      const bool is_cut = tokens.size() > kTokensOfEach;
      if (is_cut) tokens.resize(kTokensOfEach);
      // The last word is another one where it was cut.
      const size_t sure = is_cut ? kTokensOfEach / 2 : tokens.size();
      const Result<std::string> text = tokenizer_.decode(tokens);
      if (tokens.empty() || !text.has_value()) continue;
      Result<Tokens> again = tokenizer_.encode(*text);
      if (again.has_value()) std::erase_if(*again, is_special);
      const bool is_same =
          again.has_value() && again->size() >= sure &&
          std::ranges::equal(std::span(tokens).first(sure), std::span(*again).first(sure));
      changed += is_same ? 0 : 1;
      ++compared;
    }
    return changed * 2 > compared ? changed : 0;
  }

  /// Documents that are there more often than in the inputs have the last place of their equals.
  void share_places() {
    for (size_t begin = 0; begin < entries_.size();) {
      size_t end = begin + 1;
      while (end < entries_.size() && entries_[end].key() == entries_[begin].key()) ++end;
      const size_t taken = begin + taken_[begin];
      for (size_t i = taken; i < end; ++i) {
        const auto document = static_cast<size_t>(entries_[i].document);
        if (taken == begin) {
          found_.missing.push_back(entries_[i].document);
        } else {
          places_[document] = places_[static_cast<size_t>(entries_[taken - 1].document)];
          ++found_.shared_places;
        }
      }
      begin = end;
    }
    std::ranges::sort(found_.missing);
  }

  const IndexedDataset& set_;
  const PreprocessOptions& options_;
  const tokenizer::Tokenizer& tokenizer_;
  const ProgressCallback& progress_;
  std::vector<Entry> entries_;         // sorted
  std::vector<DocumentPlace> places_;  // of the dataset's documents
  std::vector<uint32_t> taken_;        // how many of equal ones have a place, at their first entry
  int64_t filled_documents_ = 0;       // that have tokens

  // Of the inputs' documents that have tokens:
  int64_t hits_ = 0;          // those that are in the dataset
  int64_t tried_ = 0;         // of the first kTried
  bool has_several_ = false;  // sequences, one of these
  std::vector<Tokens> missed_;
  size_t missed_tokens_ = 0;
  FoundProvenance found_;
};

}  // namespace

Result<FoundProvenance> find_provenance(const dataset::IndexedDataset& dataset,
                                        const PreprocessOptions& options,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const ProgressCallback& progress) {
  return ProvenanceFinder(dataset, options, tokenizer, progress).run();
}

}  // namespace meg::preprocess
