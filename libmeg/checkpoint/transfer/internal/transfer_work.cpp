#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libmeg/checkpoint/transfer/internal/transfer_plan_check.h"

namespace meg::checkpoint {
namespace {

using Work = TransferWork;
using Works = std::vector<std::unique_ptr<Work>>;

/// How many transfers read each storage: (file, storage) -> count and the first of them.
struct StorageUse {
  int count = 0;
  bool is_checked = false;
  const std::string* name = nullptr;
};

using StorageUses = std::map<std::pair<int, int>, StorageUse>;

StorageUses count_uses(const TransferPlan& plan) {
  StorageUses uses;
  for (const TensorTransfer& transfer : plan.transfers) {
    for (const TransferSource& source : transfer.sources) {
      StorageUse& use = uses[{source.file, source.view.storage}];
      if (use.count++ == 0) use.name = &transfer.name;
    }
  }
  return uses;
}

/// Cuts the cut axis where the set of sources or targets changes.
std::vector<Work::Segment> cut_segments(const Work& work, PaddingFill fill) {
  std::vector<int64_t> cuts{0, work.extent, std::min(work.source_extent, work.extent)};
  for (const auto& source : work.sources) cuts.insert(cuts.end(), {source.begin, source.end});
  for (const auto& target : work.targets) cuts.insert(cuts.end(), {target.begin, target.end});
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  std::vector<Work::Segment> segments;
  size_t source = 0;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    Work::Segment segment{cuts[i], cuts[i + 1], Work::Segment::kZeros, {}};
    while (source < work.sources.size() && work.sources[source].end <= segment.begin) ++source;
    if (source < work.sources.size()) {
      segment.source = static_cast<int>(source);
    } else if (fill == PaddingFill::kRepeatLastRow && work.source_extent > 0) {
      segment.source = Work::Segment::kLastRow;
    }
    for (size_t t = 0; t < work.targets.size(); ++t) {
      const auto& target = work.targets[t];
      if (target.begin <= segment.begin && segment.end <= target.end) {
        segment.targets.push_back(static_cast<int>(t));
      }
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

/// Whether the whole storage passes when this source is read once from its first element to its
/// last.
bool covers_storage(const TransferReader& reader, const TensorView& view) {
  const TorchStorage& storage = reader.file().storages()[static_cast<size_t>(view.storage)];
  return storage.crc.has_value() && reader.is_direct() && view.offset == 0 &&
         static_cast<uint64_t>(view.bytes()) == storage.bytes;
}

/// Whether every target takes just what one source has: then the shards are copied as they are,
/// whichever axis cuts them.
bool keeps_shards(const TensorTransfer& transfer) {
  return std::all_of(
      transfer.targets.begin(), transfer.targets.end(), [&](const TransferTarget& target) {
        return std::any_of(transfer.sources.begin(), transfer.sources.end(),
                           [&](const TransferSource& source) {
                             return source.begin == target.begin && source.end == target.end;
                           });
      });
}

class Preparation {
 public:
  Preparation(const TransferPlan& plan, const std::vector<TorchFileWriter>& writers,
              bool check_crcs)
      : plan_(plan), writers_(writers), check_crcs_(check_crcs), uses_(count_uses(plan)) {}

  Result<Works> run() {
    for (const TensorTransfer& transfer : plan_.transfers) add_transfer(transfer);
    if (check_crcs_) add_checks();
    return std::move(works_);
  }

 private:
  void add_transfer(const TensorTransfer& transfer);
  void add_checks();
  void add_whole_shards(const TensorTransfer& transfer, int64_t elements_per_row);
  Work::Source make_source(const TensorTransfer& transfer, const TransferSource& source);
  std::unique_ptr<Work> make_work(const TensorTransfer& transfer);
  Work::Target make_target(const TransferTarget& target);

  const TransferPlan& plan_;
  const std::vector<TorchFileWriter>& writers_;
  bool check_crcs_;
  StorageUses uses_;
  Works works_;
};

Work::Source Preparation::make_source(const TensorTransfer& transfer,
                                      const TransferSource& source) {
  std::vector<int64_t> axes = transfer.axes;
  axes[static_cast<size_t>(transfer.cut_axis)] = source.end - source.begin;
  const TorchFile& file = *plan_.sources[static_cast<size_t>(source.file)];
  Work::Source made{TransferReader(file, source.view, axes, source.memory_order),
                    source.begin,
                    source.end,
                    source.view.storage,
                    false,
                    {}};
  StorageUse& use = uses_[{source.file, source.view.storage}];
  made.checks_crc = check_crcs_ && use.count == 1 && covers_storage(made.reader, source.view);
  use.is_checked = use.is_checked || made.checks_crc;
  return made;
}

Work::Target Preparation::make_target(const TransferTarget& target) {
  return {&writers_[static_cast<size_t>(target.file)],
          target.file,
          target.storage,
          target.begin,
          target.end,
          {}};
}

std::unique_ptr<Work> Preparation::make_work(const TensorTransfer& transfer) {
  auto work = std::make_unique<Work>();
  work->name = transfer.name;
  work->source_dtype = transfer.source_dtype;
  work->target_dtype = transfer.target_dtype;
  return work;
}

void Preparation::add_transfer(const TensorTransfer& transfer) {
  auto work = make_work(transfer);
  for (size_t i = 0; i < transfer.axes.size(); ++i) {
    if (i < static_cast<size_t>(transfer.cut_axis)) work->outer *= transfer.axes[i];
    if (i > static_cast<size_t>(transfer.cut_axis)) work->inner *= transfer.axes[i];
  }
  if (work->outer > 1 && keeps_shards(transfer)) {
    add_whole_shards(transfer, work->outer * work->inner);
    return;
  }
  work->source_extent = transfer.source_extent;
  work->extent =
      std::max(transfer.axes[static_cast<size_t>(transfer.cut_axis)], transfer.source_extent);
  for (const TransferSource& source : transfer.sources) {
    work->sources.push_back(make_source(transfer, source));
  }
  for (const TransferTarget& target : transfer.targets) {
    work->targets.push_back(make_target(target));
  }
  work->segments = cut_segments(*work, transfer.fill);
  works_.push_back(std::move(work));
}

void Preparation::add_whole_shards(const TensorTransfer& transfer, int64_t elements_per_row) {
  for (const TransferSource& source : transfer.sources) {
    auto work = make_work(transfer);
    work->extent = work->source_extent = (source.end - source.begin) * elements_per_row;
    work->sources.push_back(make_source(transfer, source));
    work->sources[0].begin = 0;
    work->sources[0].end = work->extent;
    for (const TransferTarget& target : transfer.targets) {
      if (target.begin != source.begin) continue;
      work->targets.push_back(make_target(target));
      work->targets.back().begin = 0;
      work->targets.back().end = work->extent;
    }
    work->segments = cut_segments(*work, transfer.fill);
    works_.push_back(std::move(work));
  }
}

void Preparation::add_checks() {
  for (const auto& [where, use] : uses_) {
    const TorchFile& file = *plan_.sources[static_cast<size_t>(where.first)];
    const TorchStorage& storage = file.storages()[static_cast<size_t>(where.second)];
    if (use.is_checked || !storage.crc) continue;
    auto work = std::make_unique<Work>();
    work->name = *use.name;
    work->extent = work->source_extent = static_cast<int64_t>(storage.bytes);
    work->sources.push_back(
        {TransferReader::of_storage(file, where.second), 0, work->extent, where.second, true, {}});
    work->segments = cut_segments(*work, PaddingFill::kZero);
    works_.push_back(std::move(work));
  }
}

}  // namespace

void TransferWork::add(const Parts& parts) {
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < sources.size(); ++i) sources[i].crc.add(parts.sources[i]);
  for (size_t i = 0; i < targets.size(); ++i) targets[i].crc.add(parts.targets[i]);
}

Status TransferWork::finish(std::vector<uint32_t>* crcs) {
  for (Source& source : sources) {
    if (!source.checks_crc) continue;
    const TorchFile& file = source.reader.file();
    const TorchStorage& storage = file.storages()[static_cast<size_t>(source.storage)];
    const auto found = source.crc.whole(storage.bytes);
    if (!found) return make_error(StatusCode::kInternal, "{}: not read wholly", name);
    if (*found == *storage.crc) continue;
    return make_error(StatusCode::kCorruption,
                      "{}: storage {} ({}): CRC-32: expected {:08x}, found {:08x}", file.path(),
                      storage.key, name, *storage.crc, *found);
  }
  for (Target& target : targets) {
    const auto bytes = outer * (target.end - target.begin) * inner * target_size();
    const auto crc = target.crc.whole(static_cast<uint64_t>(bytes));
    if (!crc) return make_error(StatusCode::kInternal, "{}: not written wholly", name);
    crcs->push_back(*crc);
  }
  return Status();
}

Result<Works> prepare_transfers(const TransferPlan& plan,
                                const std::vector<TorchFileWriter>& writers, bool check_crcs) {
  MEG_RETURN_IF_ERROR(check_plan(plan));
  return Preparation(plan, writers, check_crcs).run();
}

}  // namespace meg::checkpoint
