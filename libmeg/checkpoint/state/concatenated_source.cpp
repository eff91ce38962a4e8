#include "libmeg/checkpoint/state/concatenated_source.h"

#include <algorithm>
#include <utility>

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

class ConcatenatedSource final : public TensorSource {
 public:
  explicit ConcatenatedSource(std::vector<Source> sources)
      : TensorSource(sources[0]->dtype(), total(sources)), sources_(std::move(sources)) {
    int64_t end = 0;
    for (const Source& source : sources_) ends_.push_back(end += source->elements());
  }

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    auto at =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    while (!into.empty()) {
      const int64_t begin = at == 0 ? 0 : ends_[at - 1];
      const auto bytes = std::min(into.size(), static_cast<size_t>((ends_[at] - first) * size));
      MEG_RETURN_IF_ERROR(sources_[at]->read(first - begin, into.first(bytes)));
      into = into.subspan(bytes);
      first = ends_[at++];
    }
    return Status();
  }

  std::vector<FileExtent> file_extents() const override {
    std::vector<FileExtent> all;
    for (const Source& source : sources_) {
      const std::vector<FileExtent> own = source->file_extents();
      if (own.empty()) return {};
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return recorded_crcs_of(sources_); }

 private:
  static int64_t total(const std::vector<Source>& sources) {
    int64_t elements = 0;
    for (const Source& source : sources) elements += source->elements();
    return elements;
  }

  std::vector<Source> sources_;
  std::vector<int64_t> ends_;  // of each, in elements of the whole
};

}  // namespace

Source concatenated(std::vector<Source> sources) {
  if (sources.size() == 1) return sources[0];
  return std::make_shared<ConcatenatedSource>(std::move(sources));
}

}  // namespace meg::checkpoint
