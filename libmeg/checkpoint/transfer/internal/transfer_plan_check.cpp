#include "libmeg/checkpoint/transfer/internal/transfer_plan_check.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "libmeg/base/bytes.h"

namespace meg::checkpoint {
namespace {

Status misfit(const TensorTransfer& transfer, std::string_view what) {
  return make_error(StatusCode::kInternal, "plan: {}: {}", transfer.name, what);
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

/// Elements of a stretch of `rows` on the cut axis; nullopt where they do not fit.
std::optional<uint64_t> elements(const TensorTransfer& transfer, int64_t rows) {
  uint64_t product = 1;
  for (size_t i = 0; i < transfer.axes.size(); ++i) {
    const int64_t size = i == static_cast<size_t>(transfer.cut_axis) ? rows : transfer.axes[i];
    if (size < 0 || !checked_multiply(product, static_cast<uint64_t>(size), &product)) {
      return std::nullopt;
    }
  }
  // Room for any multiplication with an element's size.
  if (product > uint64_t{1} << 58) return std::nullopt;
  return product;
}

bool is_order_of(const std::vector<int>& order, size_t axes) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> expected(axes);
  std::iota(expected.begin(), expected.end(), 0);
  return order.empty() || sorted == expected;
}

Status check_box(const TensorTransfer& transfer) {
  const auto cut = static_cast<size_t>(transfer.cut_axis);
  if (transfer.cut_axis < 0 || cut >= transfer.axes.size()) return misfit(transfer, "cut_axis");
  if (transfer.source_extent < 0 ||
      !elements(transfer, std::max(transfer.axes[cut], transfer.source_extent))) {
    return misfit(transfer, "axes");
  }
  const bool is_filled = transfer.axes[cut] > transfer.source_extent;
  if (is_filled && cut != 0) return misfit(transfer, "only the first axis can be filled up");
  const bool converts = transfer.source_dtype != transfer.target_dtype;
  if (converts && !(is_float(transfer.source_dtype) && is_float(transfer.target_dtype))) {
    return misfit(transfer, "types that are not converted");
  }
  return Status();
}

Status check_sources(const TransferPlan& plan, const TensorTransfer& transfer) {
  int64_t end = 0;
  for (const TransferSource& source : transfer.sources) {
    if (source.file < 0 || static_cast<size_t>(source.file) >= plan.sources.size()) {
      return misfit(transfer, "source file");
    }
    const auto storages = plan.sources[static_cast<size_t>(source.file)]->storages();
    if (source.view.storage < 0 || static_cast<size_t>(source.view.storage) >= storages.size()) {
      return misfit(transfer, "source storage");
    }
    if (source.begin != end || source.end < source.begin) return misfit(transfer, "source stretch");
    end = source.end;
    const auto count = elements(transfer, source.end - source.begin);
    if (!count || static_cast<int64_t>(*count) != source.view.numel()) {
      return misfit(transfer, "source shape");
    }
    if (source.view.dtype != transfer.source_dtype) return misfit(transfer, "source type");
    if (!is_order_of(source.memory_order, transfer.axes.size())) {
      return misfit(transfer, "memory_order");
    }
  }
  return end == transfer.source_extent ? Status() : misfit(transfer, "source_extent");
}

Status check_target(const TransferPlan& plan, const TensorTransfer& transfer,
                    const TransferTarget& target) {
  if (target.file < 0 || static_cast<size_t>(target.file) >= plan.targets.size()) {
    return misfit(transfer, "target file");
  }
  const auto storages = plan.targets[static_cast<size_t>(target.file)].content.storages();
  if (target.storage < 0 || static_cast<size_t>(target.storage) >= storages.size()) {
    return misfit(transfer, "target storage");
  }
  const auto& storage = storages[static_cast<size_t>(target.storage)];
  const int64_t rows = transfer.axes[static_cast<size_t>(transfer.cut_axis)];
  if (target.begin < 0 || target.end < target.begin || target.end > rows) {
    return misfit(transfer, "target stretch");
  }
  const auto count = elements(transfer, target.end - target.begin);
  const auto size = static_cast<uint64_t>(dtype_size(transfer.target_dtype));
  if (!count || *count * size != storage.bytes || !storage.literal.empty()) {
    return misfit(transfer, "target storage's bytes");
  }
  return Status();
}

}  // namespace

Status check_plan(const TransferPlan& plan) {
  std::set<std::pair<int, int>> written;
  for (const TensorTransfer& transfer : plan.transfers) {
    MEG_RETURN_IF_ERROR(check_box(transfer));
    MEG_RETURN_IF_ERROR(check_sources(plan, transfer));
    for (const TransferTarget& target : transfer.targets) {
      MEG_RETURN_IF_ERROR(check_target(plan, transfer, target));
      if (!written.emplace(target.file, target.storage).second) {
        return misfit(transfer, "a target storage that is written twice");
      }
    }
  }
  return Status();
}

}  // namespace meg::checkpoint
