#include "libmeg/cleaning/duplicates/shingle_sets.h"

#include <algorithm>
#include <utility>

namespace meg::cleaning {

constexpr size_t kBuffered = size_t{1} << 17;  // shingles

Result<ShingleWriter> ShingleWriter::create(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_regular(path));
  return ShingleWriter(std::move(file));
}

Status ShingleWriter::add(std::span<const uint64_t> shingles) {
  if (!buffer_.empty() && buffer_.size() + shingles.size() > kBuffered) {
    MEG_RETURN_IF_ERROR(finish().status());
  }
  if (shingles.size() > kBuffered) return file_.write(std::as_bytes(shingles));
  buffer_.insert(buffer_.end(), shingles.begin(), shingles.end());
  return {};
}

Result<io::AtomicFile*> ShingleWriter::finish() {
  MEG_RETURN_IF_ERROR(file_.write(std::as_bytes(std::span(buffer_))));
  buffer_.clear();
  return &file_;
}

/// Reads the shingles of a document, a few at a time: a hostile document may have millions.
class ShingleSets::Cursor {
 public:
  Cursor(const Read& read, uint64_t begin, uint64_t end) : read_(read), next_(begin), end_(end) {}

  /// False at the end.
  Result<bool> next(uint64_t& shingle) {
    if (at_ == buffer_.size()) {
      if (next_ == end_) return false;
      buffer_.resize(std::min<uint64_t>(end_ - next_, kAtOnce));
      const auto into = std::as_writable_bytes(std::span(buffer_));
      MEG_ASSIGN_OR_RETURN(const size_t read,
                           read_(static_cast<int64_t>(next_ * sizeof(uint64_t)), into));
      if (read != into.size()) {
        return make_error(StatusCode::kCorruption, "shingles: expected {} bytes, found {}",
                          into.size(), read);
      }
      next_ += buffer_.size();
      at_ = 0;
    }
    shingle = buffer_[at_++];
    return true;
  }

 private:
  static constexpr uint64_t kAtOnce = 4096;

  const Read& read_;
  uint64_t next_, end_;  // in the file
  std::vector<uint64_t> buffer_;
  size_t at_ = 0;
};

void ShingleSets::add_file(Read read) {
  files_.push_back({.first = shingles(), .read = std::move(read)});
}

Status ShingleSets::add(int64_t document, uint64_t shingles) {
  const uint64_t end = this->shingles();
  MEG_RETURN_IF_ERROR(ends_.grow(static_cast<size_t>(document), end));
  return ends_.grow(static_cast<size_t>(document) + 1, end + shingles);
}

uint64_t ShingleSets::begin_of(uint32_t document) const {
  return document == 0 ? 0 : end_of(document - 1);
}

uint64_t ShingleSets::end_of(uint32_t document) const {
  return document < ends_.size() ? ends_[document] : shingles();
}

ShingleSets::Cursor ShingleSets::cursor(uint32_t document) const {
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), begin_of(document),
                       [](uint64_t begin, const File& file) { return begin < file.first; });
  const File& file = *std::prev(after);
  return {file.read, begin_of(document) - file.first, end_of(document) - file.first};
}

Result<uint64_t> ShingleSets::common(uint32_t a, uint32_t b) const {
  Cursor of_a = cursor(a), of_b = cursor(b);
  uint64_t count = 0, x = 0, y = 0;
  MEG_ASSIGN_OR_RETURN(bool has_x, of_a.next(x));
  MEG_ASSIGN_OR_RETURN(bool has_y, of_b.next(y));
  while (has_x && has_y) {
    const bool takes_x = x <= y, takes_y = y <= x;
    if (takes_x && takes_y) ++count;
    if (takes_x) {
      MEG_ASSIGN_OR_RETURN(has_x, of_a.next(x));
    }
    if (takes_y) {
      MEG_ASSIGN_OR_RETURN(has_y, of_b.next(y));
    }
  }
  return count;
}

Result<bool> ShingleSets::are_similar(uint32_t a, uint32_t b, double least) const {
  const auto [smaller, larger] = std::minmax({size(a), size(b)});
  // Not even all of the smaller set would be enough.
  if (static_cast<double>(smaller) / static_cast<double>(larger) < least) return false;
  MEG_ASSIGN_OR_RETURN(const uint64_t both, common(a, b));
  return static_cast<double>(both) / static_cast<double>(size(a) + size(b) - both) >= least;
}

}  // namespace meg::cleaning
