#include "libmeg/checkpoint/state/converted_source.h"

#include <algorithm>
#include <utility>

#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

/// So many stay in the cache.
constexpr int64_t kElementsAtOnce = int64_t{1} << 16;

class ConvertedSource final : public TensorSource {
 public:
  ConvertedSource(std::shared_ptr<const TensorSource> source, DType dtype)
      : TensorSource(dtype, source->elements()), source_(std::move(source)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const auto own = static_cast<size_t>(dtype_size(dtype()));
    const auto other = static_cast<size_t>(dtype_size(source_->dtype()));
    const auto wanted = static_cast<int64_t>(into.size() / own);
    std::vector<std::byte> tile(static_cast<size_t>(std::min(kElementsAtOnce, wanted)) * other);
    for (int64_t done = 0; done < wanted; done += kElementsAtOnce) {
      const auto count = static_cast<size_t>(std::min(kElementsAtOnce, wanted - done));
      const auto from = std::span(tile).first(count * other);
      MEG_RETURN_IF_ERROR(source_->read(first + done, from));
      const auto to = into.subspan(static_cast<size_t>(done) * own, count * own);
      MEG_RETURN_IF_ERROR(convert_floats(source_->dtype(), from, dtype(), to));
    }
    return Status();
  }

  // CRCs of the bytes in the file, independent of the conversion.
  std::vector<RecordedCrc> recorded_crcs() const override { return source_->recorded_crcs(); }

 private:
  std::shared_ptr<const TensorSource> source_;
};

}  // namespace

std::shared_ptr<const TensorSource> converted(std::shared_ptr<const TensorSource> source,
                                              DType dtype) {
  return std::make_shared<ConvertedSource>(std::move(source), dtype);
}

}  // namespace meg::checkpoint
