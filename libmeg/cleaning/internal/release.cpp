#include "libmeg/cleaning/internal/release.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/cleaning/duplicates/external_sorter.h"
#include "libmeg/cleaning/internal/minhash_stages.h"
#include "libmeg/cleaning/internal/text_pieces.h"

namespace meg::cleaning {
namespace {

/// Reads the documents that are held, one after another.
class HeldDocuments {
 public:
  explicit HeldDocuments(const SharedState& shared) : shared_(shared) {}

  /// line: valid until the next call.
  Status next(HeldHeader& header, std::string_view& line) {
    MEG_ASSIGN_OR_RETURN(std::string_view bytes, take(sizeof(header)));
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.split >= shared_.outputs.size()) {
      return make_error(StatusCode::kCorruption, "{}: expected one of {} splits, found {}",
                        "the held documents", shared_.outputs.size(), header.split);
    }
    MEG_ASSIGN_OR_RETURN(line, take(header.size));
    if (header.text_bytes < 0 || header.text_bytes > std::ssize(line) || !line.ends_with('\n')) {
      return make_error(StatusCode::kCorruption, "{}: expected a line with a text of {} bytes",
                        "the held documents", header.text_bytes);
    }
    return {};
  }

  /// Of the next document in the file.
  int64_t position() const { return offset_ - std::ssize(buffer_) + static_cast<int64_t>(at_); }

 private:
  Result<std::string_view> take(size_t size) {
    if (buffer_.size() - at_ < size) {
      buffer_.erase(0, at_);
      at_ = 0;
      const size_t have = buffer_.size();
      const auto left = static_cast<size_t>(shared_.held_bytes - offset_);
      if (left < size - have) {
        return make_error(StatusCode::kCorruption, "{}: ends in a document", "the held documents");
      }
      buffer_.resize(std::min(std::max(size, kBufferBytes), have + left));
      const auto into = std::span(buffer_).subspan(have);
      MEG_ASSIGN_OR_RETURN(const size_t read,
                           shared_.read_held(offset_, std::as_writable_bytes(into)));
      if (read != into.size()) {
        return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}",
                          "the held documents", into.size(), read);
      }
      offset_ += static_cast<int64_t>(read);
    }
    const std::string_view taken = std::string_view(buffer_).substr(at_, size);
    at_ += size;
    return taken;
  }

  static constexpr size_t kBufferBytes = size_t{4} << 20;

  const SharedState& shared_;
  int64_t offset_ = 0;  // of what was read
  std::string buffer_;
  size_t at_ = 0;
};

/// Decides which of the documents that are held stay, and writes those.
class Release {
 public:
  Release(const CleanOptions& options, SharedState& shared, const ProgressCallback& progress)
      : options_(options),
        shared_(shared),
        progress_(progress),
        editor_(options),
        pool_(options.workers),
        blocks_(shared.outputs.size()) {
    for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i].output = i;
  }

  Status run() {
    const auto held = static_cast<size_t>(shared_.held);
    const bool cuts = options_.duplicate_unit != DuplicateUnit::kDocument;
    repeated_.resize(cuts ? static_cast<size_t>(shared_.held_pieces) : held);
    std::vector<bool> removed(held);
    if (shared_.exact) MEG_RETURN_IF_ERROR(shared_.exact->find(repeated_));
    if (shared_.near) {
      MEG_ASSIGN_OR_RETURN(removed, find_near_duplicates());
    }
    if (shared_.removed) removed = std::move(*shared_.removed);
    HeldDocuments documents(shared_);
    ExternalSorter<Place> shuffled(options_.output + ".order",
                                   static_cast<size_t>(options_.memory / 2));
    HeldHeader header{};
    std::string_view line;
    uint64_t number = 0;  // among those that stay
    size_t piece = 0;
    for (size_t i = 0; i < held; ++i) {
      MEG_RETURN_IF_ERROR(documents.next(header, line));
      show_in_clusters(i, line);
      Place place{
          .begin = documents.position() - std::ssize(line), .header = header, .first_piece = piece};
      const bool stays = cuts ? cut(header, line, piece) : !repeated_[i];
      if (cuts) {
        shared_.exact_counts->removed_pieces += std::count_if(
            pieces_.begin(), pieces_.end(), [](const TextPiece& one) { return one.is_removed; });
      }
      if (!stays) {
        shared_.count_removed(*shared_.exact_counts, header.text_bytes, line, options_);
        continue;
      }
      if (cuts) {
        shared_.exact_counts->removed_bytes += place.header.text_bytes - header.text_bytes;
        shared_.exact_counts->changed += header.is_cut != 0 ? 1 : 0;
      }
      if (shared_.near_counts != nullptr) {
        ++shared_.near_counts->documents;
        shared_.near_counts->bytes += header.text_bytes;
      }
      if (removed[i]) {
        shared_.count_removed(*shared_.near_counts, header.text_bytes, line, options_);
        continue;
      }
      if (options_.shuffle) {
        place.order = XXH3_64bits_withSeed(&number, sizeof(number), options_.seed);
        place.number = number++;
        MEG_RETURN_IF_ERROR(shuffled.add(place));
      } else if (!is_enough()) {
        MEG_RETURN_IF_ERROR(append(header, line));
      }
    }
    if (documents.position() != shared_.held_bytes) {
      return make_error(StatusCode::kCorruption, "the held documents: expected {}, found more",
                        held);
    }
    MEG_RETURN_IF_ERROR(append_shuffled(shuffled));
    return write();
  }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  /// Where a document is, by the order in which it is written.
  struct Place {
    uint64_t order = 0, number = 0;
    int64_t begin = 0;
    HeldHeader header{};
    size_t first_piece = 0;

    bool operator<(const Place& other) const {
      return order != other.order ? order < other.order : number < other.number;
    }
  };

  /// Which documents go.
  Result<std::vector<bool>> find_near_duplicates() {
    CleanSummary& summary = shared_.summary;
    MEG_ASSIGN_OR_RETURN(
        NearDuplicates::Found found,
        shared_.near->find(shared_.held, repeated_, options_.workers, make_tick(progress_)));
    summary.clusters = found.clusters.clusters;
    summary.candidate_pairs = found.pairs.candidates;
    summary.joined_pairs = found.pairs.joined;
    largest_clusters_ = std::move(found.clusters.largest);
    for (const Clusters::Cluster& cluster : largest_clusters_) {
      summary.largest_clusters.push_back(
          {.documents = cluster.documents, .kept = {}, .removed = {}});
    }
    warn_of_missing_values(options_, found.without_value, summary);
    return std::move(found.clusters.removed);
  }

  void show_in_clusters(size_t document, std::string_view line) {
    for (size_t i = 0; i < largest_clusters_.size(); ++i) {
      DuplicateCluster& shown = shared_.summary.largest_clusters[i];
      if (largest_clusters_[i].kept == document) shown.kept = SharedState::shown_begin(line);
      if (largest_clusters_[i].removed == document) shown.removed = SharedState::shown_begin(line);
    }
  }

  /// Removes repeated pieces of a document, the first of which is the number `piece`; false, with
  /// all else unchanged, where no others are left. line: valid until the next call.
  bool cut(HeldHeader& header, std::string_view& line, size_t& piece) {
    const std::string_view text = editor_.text_of(line);
    pieces_.clear();
    split_text(text, options_.duplicate_unit, pieces_);
    int64_t removed = 0, kept = 0;
    for (TextPiece& one : pieces_) {
      if (one.is_blank) continue;
      one.is_removed = repeated_[piece++];
      ++(one.is_removed ? removed : kept);
    }
    if (removed == 0) return true;
    if (kept == 0) return false;
    text_.clear();
    append_kept_pieces(text, pieces_, text_);
    line_.clear();
    editor_.append_line(text_, line_);
    line = line_;
    header.text_bytes = std::ssize(text_);
    header.is_cut = 1;
    return true;
  }

  Status append_shuffled(ExternalSorter<Place>& shuffled) {
    MEG_RETURN_IF_ERROR(shuffled.finish());
    Place place;
    std::string line;
    while (!is_enough()) {
      MEG_ASSIGN_OR_RETURN(const bool more, shuffled.next(place));
      if (!more) break;
      line.resize(place.header.size);
      MEG_ASSIGN_OR_RETURN(const size_t read,
                           shared_.read_held(place.begin, std::as_writable_bytes(std::span(line))));
      if (read != line.size()) return incomplete();
      std::string_view shown = line;
      if (options_.duplicate_unit != DuplicateUnit::kDocument) {
        cut(place.header, shown, place.first_piece);
      }
      MEG_RETURN_IF_ERROR(append(place.header, shown));
    }
    return {};
  }

  Status incomplete() const {
    return make_error(StatusCode::kCorruption, "{}: ends in a document", "the held documents");
  }

  bool is_enough() const {
    return options_.max_documents && shared_.summary.kept >= *options_.max_documents;
  }

  Status append(const HeldHeader& header, std::string_view line) {
    shared_.count_kept(header.split, header.text_bytes);
    OutputBlock& block = blocks_[header.split];
    block.places.push_back(header.place);
    if (options_.id_prefix) {
      editor_.append_with_id(line, shared_.summary.kept, block.bytes);
    } else {
      block.bytes.append(line);
    }
    if (block.bytes.size() < kBlockBytes) return {};
    ready_.push_back(std::move(block));
    block = {};
    block.output = header.split;
    return std::ssize(ready_) == options_.workers ? write_ready() : Status();
  }

  /// Writes all that is left.
  Status write() {
    for (OutputBlock& block : blocks_) {
      if (!block.places.empty()) ready_.push_back(std::move(block));
    }
    return write_ready();
  }

  Status write_ready() {
    std::vector<Status> statuses(ready_.size());
    while (packers_.size() < ready_.size()) packers_.emplace_back(options_);
    for (size_t i = 0; i < ready_.size(); ++i) {
      pool_.submit([this, &statuses, i] { statuses[i] = packers_[i].pack(ready_[i]); });
    }
    pool_.wait();
    for (size_t i = 0; i < ready_.size(); ++i) {
      MEG_RETURN_IF_ERROR(statuses[i]);
      MEG_RETURN_IF_ERROR(shared_.write(ready_[i]));
    }
    ready_.clear();
    Progress now;
    now.documents = shared_.summary.kept;
    if (!progress_ || progress_(now)) return {};
    return Status(StatusCode::kCancelled, "interrupted");
  }

  const CleanOptions& options_;
  SharedState& shared_;
  const ProgressCallback& progress_;
  std::vector<bool> repeated_;  // of the documents, or of their pieces
  std::vector<Clusters::Cluster> largest_clusters_;
  LineEditor editor_;
  std::vector<TextPiece> pieces_;  // of a document
  std::string text_, line_;
  ThreadPool pool_;
  std::vector<OutputBlock> blocks_;  // of each split, in the making
  std::vector<OutputBlock> ready_;
  std::deque<BlockPacker> packers_;  // one for each of these
};

}  // namespace

Status release_held(const CleanOptions& options, SharedState& shared,
                    const ProgressCallback& progress) {
  return Release(options, shared, progress).run();
}

}  // namespace meg::cleaning
