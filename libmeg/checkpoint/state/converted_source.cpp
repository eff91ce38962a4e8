#include "libmeg/checkpoint/state/converted_source.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

/// So many stay in the cache.
constexpr int64_t kElementsAtOnce = int64_t{1} << 16;

class ConvertedSource final : public TensorSource {
 public:
  ConvertedSource(std::shared_ptr<const TensorSource> source, DType dtype, float added)
      : TensorSource(dtype, source->elements()), source_(std::move(source)), added_(added) {}

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
      MEG_RETURN_IF_ERROR(added_ == 0 ? convert_floats(source_->dtype(), from, dtype(), to)
                                      : add(from, to));
    }
    return Status();
  }

  // CRCs of the bytes in the file, independent of the conversion.
  std::vector<RecordedCrc> recorded_crcs() const override { return source_->recorded_crcs(); }

 private:
  Status add(std::span<const std::byte> from, std::span<std::byte> to) const {
    std::vector<float> sums(from.size() / static_cast<size_t>(dtype_size(source_->dtype())));
    const auto bytes = std::as_writable_bytes(std::span(sums));
    MEG_RETURN_IF_ERROR(convert_floats(source_->dtype(), from, DType::kFloat32, bytes));
    for (float& sum : sums) sum += added_;
    return convert_floats(DType::kFloat32, bytes, dtype(), to);
  }

  std::shared_ptr<const TensorSource> source_;
  float added_;
};

}  // namespace

std::shared_ptr<const TensorSource> converted(std::shared_ptr<const TensorSource> source,
                                              DType dtype, float added) {
  return std::make_shared<ConvertedSource>(std::move(source), dtype, added);
}

}  // namespace meg::checkpoint
