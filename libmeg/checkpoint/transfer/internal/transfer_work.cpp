#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "libmeg/checkpoint/transfer/internal/transfer_plan_check.h"

namespace meg::checkpoint {
namespace {

using Work = TransferWork;

/// Orders recorded bytes by where they are.
struct ExtentOrder {
  bool operator()(const FileExtent& a, const FileExtent& b) const {
    return std::tie(a.file, a.offset, a.bytes) < std::tie(b.file, b.offset, b.bytes);
  }
};

/// How transfers read bytes with a recorded CRC-32.
struct ExtentUse {
  RecordedCrc recorded;
  std::string name;                           ///< Name of the first transfer that does.
  std::shared_ptr<const TensorSource> owner;  ///< A source in them.
  /// [begin, end) of what is read in the file's order.
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  bool has_others = false;  ///< Something else is read in another order.

  /// Whether the parts are all of the bytes, each once.
  bool is_tiled();
};

bool ExtentUse::is_tiled() {
  std::sort(parts.begin(), parts.end());
  uint64_t end = recorded.extent.offset;
  for (const auto& [part_begin, part_end] : parts) {
    if (part_begin != end) return false;
    end = part_end;
  }
  return end == recorded.extent.offset + recorded.extent.bytes;
}

/// Merges every axis that no box divides with the axis outside it.
///
/// Fewer axes mean longer runs and fewer, larger slabs: a matrix that is divided only by rows
/// becomes one run of elements. Positions in row-major order do not change, so last_row and
/// fill_begin, which were computed before, stay valid. An outer axis of size 1 is merged whatever
/// divides the inner one, because every offset on it is 0.
void merge_uncut_axes(Work* work) {
  std::vector<Box*> boxes;
  for (Work::Source& source : work->sources) boxes.push_back(&source.box);
  for (Work::Target& target : work->targets) boxes.push_back(&target.box);
  for (size_t i = work->axes.size(); i-- > 1;) {
    const int64_t size = work->axes[i];
    const bool is_uncut = work->axes[i - 1] == 1 ||
                          std::all_of(boxes.begin(), boxes.end(),
                                      [&](const Box* box) { return box->sizes[i] == size; });
    if (!is_uncut) continue;
    const auto merge = [&](std::vector<int64_t>* sizes) {
      (*sizes)[i - 1] *= (*sizes)[i];
      sizes->erase(sizes->begin() + static_cast<ptrdiff_t>(i));
    };
    for (Box* box : boxes) {
      box->offsets[i - 1] = box->offsets[i - 1] * size + box->offsets[i];
      box->offsets.erase(box->offsets.begin() + static_cast<ptrdiff_t>(i));
      merge(&box->sizes);
    }
    merge(&work->axes);
  }
}

bool is_same_part(const Piece& source, const TransferTarget& target) {
  const int64_t first = target.range.has_value() ? target.range->first : 0;
  return source.box == target.box && source.first == first &&
         source.source->elements() == target.elements();
}

/// Whether every target takes just what one source has: then pieces are copied as they are,
/// whichever axes cut them.
bool keeps_pieces(const TensorTransfer& transfer) {
  return std::all_of(
      transfer.targets.begin(), transfer.targets.end(), [&](const TransferTarget& target) {
        return std::any_of(transfer.sources.begin(), transfer.sources.end(),
                           [&](const Piece& source) { return is_same_part(source, target); });
      });
}

class Preparation {
 public:
  Preparation(std::span<const TensorTransfer> transfers,
              std::span<const std::unique_ptr<TensorSink>> sinks, int64_t chunk_bytes,
              bool check_crcs)
      : transfers_(transfers), chunk_bytes_(chunk_bytes) {
    for (const auto& sink : sinks) {
      sinks_.push_back(sink.get());
      if (sink->wants_crc() && sink->bytes() == 0) sink->set_crc(0);
      made_.filled.push_back(sink->wants_crc() ? std::make_unique<Work::Filled>(sink.get())
                                               : nullptr);
    }
    if (check_crcs) find_uses();
  }

  PreparedTransfers run() {
    for (const TensorTransfer& transfer : transfers_) add_transfer(transfer);
    for (const auto& [extent, use] : uses_) {
      if (!recorded_.contains(extent)) add_check(use);
    }
    return std::move(made_);
  }

 private:
  void find_uses();
  void add_transfer(const TensorTransfer& transfer);
  void add_pieces(const TensorTransfer& transfer);
  void add_check(const ExtentUse& use);
  std::unique_ptr<Work> make_work(const TensorTransfer& transfer) const;
  void add_source(const Piece& piece, const Box& box, int64_t first, int64_t count, Work* work);
  void add_target(const TransferTarget& target, Box box, uint64_t offset, Work* work);
  void finish(const std::vector<int64_t>& axes, std::unique_ptr<Work> work);

  std::span<const TensorTransfer> transfers_;
  int64_t chunk_bytes_;
  std::vector<TensorSink*> sinks_;
  // Every record of a container that some source lies in, and how transfers read its bytes.
  std::map<FileExtent, ExtentUse, ExtentOrder> uses_;
  std::map<FileExtent, Work::Recorded*, ExtentOrder> recorded_;  // checked in passing
  PreparedTransfers made_;
};

/// Which recorded bytes are read, and which of them wholly and once, in the file's order.
void Preparation::find_uses() {
  for (const TensorTransfer& transfer : transfers_) {
    for (const Piece& piece : transfer.sources) {
      if (piece.source->elements() == 0) continue;
      const TransferReader reader(piece.source, piece.box, piece.memory_order);
      const std::optional<FileExtent> extent = reader.file_extent();
      for (const RecordedCrc& recorded : piece.source->recorded_crcs()) {
        ExtentUse& use = uses_[recorded.extent];
        if (use.owner == nullptr) use = {recorded, transfer.name, piece.source, {}, false};
        if (extent.has_value()) {
          use.parts.emplace_back(extent->offset, extent->offset + extent->bytes);
        } else {
          use.has_others = true;
        }
      }
    }
  }
  for (auto& [where, use] : uses_) {
    // The CRC of a whole can be combined from those of its parts only if the parts are all of its
    // bytes, each once, in the file's order. This does not hold for a tied weight that is read
    // twice, a storage that is used in part, and a transposed piece; run() adds a separate read for
    // them.
    if (use.has_others || !use.is_tiled()) continue;
    made_.recorded.push_back(std::make_unique<Work::Recorded>(use.recorded, use.name));
    recorded_.emplace(where, made_.recorded.back().get());
  }
}

std::unique_ptr<Work> Preparation::make_work(const TensorTransfer& transfer) const {
  auto work = std::make_unique<Work>();
  work->name = transfer.name;
  work->source_dtype = transfer.source_dtype();
  work->target_dtype = transfer.target_dtype;
  work->fill = transfer.fill;
  return work;
}

/// box: elements [first, first + count) of what the piece's source has.
void Preparation::add_source(const Piece& piece, const Box& box, int64_t first, int64_t count,
                             Work* work) {
  Work::Source made{TransferReader(part_of(piece.source, first, count), box, piece.memory_order),
                    box};
  const std::optional<FileExtent> extent = made.reader.file_extent();
  const std::optional<RecordedCrc> recorded = piece.source->recorded_crc();
  if (extent.has_value() && recorded.has_value()) {
    const auto found = recorded_.find(recorded->extent);
    if (found != recorded_.end()) {
      made.recorded = found->second;
      made.recorded_offset = extent->offset - recorded->extent.offset;
    }
  }
  work->sources.push_back(std::move(made));
}

void Preparation::add_target(const TransferTarget& target, Box box, uint64_t offset, Work* work) {
  const auto sink = static_cast<size_t>(target.sink);
  work->targets.push_back({sinks_[sink], made_.filled[sink].get(), std::move(box), offset});
}

void Preparation::add_transfer(const TensorTransfer& transfer) {
  if (keeps_pieces(transfer)) {
    add_pieces(transfer);
    return;
  }
  auto work = make_work(transfer);
  for (const Piece& piece : transfer.sources) {
    int64_t first = 0;
    for (const Box& box : boxes_of_range(piece.box, piece.first, piece.source->elements())) {
      add_source(piece, box, first, box.elements(), work.get());
      first += box.elements();
    }
  }
  for (const TransferTarget& target : transfer.targets) {
    const int64_t first = target.range.has_value() ? target.range->first : 0;
    uint64_t offset = target.offset;
    for (Box& box : boxes_of_range(target.box, first, target.elements())) {
      const auto bytes = static_cast<uint64_t>(box.elements() * work->target_size());
      add_target(target, std::move(box), offset, work.get());
      offset += bytes;
    }
  }
  work->axes = transfer.spanned_axes();
  work->last_row = work->row_elements(0);
  work->fill_begin = work->last_row * transfer.source_extent;
  finish(transfer.spanned_axes(), std::move(work));
}

void Preparation::add_pieces(const TensorTransfer& transfer) {
  for (const Piece& piece : transfer.sources) {
    const int64_t count = piece.source->elements();
    if (count == 0) continue;
    auto work = make_work(transfer);
    work->axes = {count};
    work->fill_begin = count;
    add_source(piece, piece.box, 0, count, work.get());
    work->sources[0].box = Box::whole({count});
    for (const TransferTarget& target : transfer.targets) {
      if (!is_same_part(piece, target)) continue;
      add_target(target, Box::whole({count}), target.offset, work.get());
    }
    finish(piece.box.sizes, std::move(work));
  }
}

void Preparation::add_check(const ExtentUse& use) {
  const FileExtent& extent = use.recorded.extent;
  const auto bytes = static_cast<int64_t>(extent.bytes);
  made_.recorded.push_back(std::make_unique<Work::Recorded>(use.recorded, use.name));
  auto work = std::make_unique<Work>();
  work->name = use.name;
  work->axes = {bytes};
  work->fill_begin = bytes;
  // Shares the ownership of the source, which is what keeps the file of its extent alive.
  const std::shared_ptr<const io::PooledFile> file(use.owner, extent.file);
  work->sources.push_back({TransferReader(file_source(file, extent.offset, DType::kUint8, bytes)),
                           Box::whole({bytes}), made_.recorded.back().get(), 0});
  finish({bytes}, std::move(work));
}

/// Chooses how much is copied at once. axes: of the transfer, as it was.
void Preparation::finish(const std::vector<int64_t>& axes, std::unique_ptr<Work> work) {
  merge_uncut_axes(work.get());
  const int64_t size = std::max(work->source_size(), work->target_size());
  const int64_t most = std::max<int64_t>(chunk_bytes_ / size, 1);
  // The outermost axis of which one row fits a chunk: its slabs are the longest runs that the
  // buffers hold. The larger of both types counts, since a chunk is held in each of them.
  const size_t last = work->axes.size() - 1;
  while (work->slab_axis < last && work->row_elements(work->slab_axis) > most) ++work->slab_axis;
  const int64_t row = std::max<int64_t>(work->row_elements(work->slab_axis), 1);
  work->slab_rows = most / row;
  const bool is_reordered = std::any_of(work->sources.begin(), work->sources.end(),
                                        [](const auto& one) { return one.reader.is_reordered(); });
  if (is_reordered && work->slab_axis == last) {
    // Sources that are read block by block are so in whole rows of the axis that they are cut on.
    int64_t inner = 1;
    for (size_t i = axes.size(); i-- > 1 && inner * axes[i] <= most;) inner *= axes[i];
    work->slab_rows = most / inner * inner;
  }
  made_.works.push_back(std::move(work));
}

}  // namespace

std::optional<uint32_t> TransferCrc::add(const CrcParts& parts) {
  const std::lock_guard lock(mutex_);
  parts_.add(parts);
  // Parts are only counted until they can be complete. Exactly one caller adds the last part, so
  // the result is compared or passed on once.
  return parts_.bytes() == bytes_ ? parts_.whole(bytes_) : std::nullopt;
}

Work::Recorded::Recorded(RecordedCrc crc, std::string tensor)
    : recorded(std::move(crc)), name(std::move(tensor)), found(recorded.extent.bytes) {}

Status Work::Recorded::add(const CrcParts& parts) {
  const std::optional<uint32_t> crc = found.add(parts);
  // By now the bytes have been written to their targets. That is harmless because no target is used
  // before run_transfers() has succeeded: files get their names after it.
  if (!crc.has_value() || *crc == recorded.crc) return Status();
  return make_error(StatusCode::kCorruption, "{}: {} ({}): CRC-32: expected {:08x}, found {:08x}",
                    recorded.extent.file->path(), recorded.name, name, recorded.crc, *crc);
}

void Work::Filled::add(const CrcParts& parts) {
  const std::optional<uint32_t> whole = crc.add(parts);
  if (whole.has_value()) sink->set_crc(*whole);
}

int64_t Work::row_elements(size_t axis) const {
  int64_t product = 1;
  for (size_t i = axis + 1; i < axes.size(); ++i) product *= axes[i];
  return product;
}

std::optional<SlabRun> run_in(const Box& box, const Slab& slab) {
  int64_t first = 0;
  for (size_t i = 0; i < slab.axis(); ++i) {
    const int64_t place = slab.outer[i] - box.offsets[i];
    if (place < 0 || place >= box.sizes[i]) return std::nullopt;
    first = first * box.sizes[i] + place;
  }
  const int64_t begin = slab.begin - box.offsets[slab.axis()];
  if (begin < 0 || begin >= box.sizes[slab.axis()]) return std::nullopt;
  int64_t row = 1;
  for (size_t i = slab.axis() + 1; i < box.sizes.size(); ++i) row *= box.sizes[i];
  if (row == 0) return std::nullopt;
  return SlabRun{(first * box.sizes[slab.axis()] + begin) * row, (slab.end - slab.begin) * row};
}

Slab Work::slab_at(int64_t position, int64_t max_rows) const {
  Slab slab;
  slab.outer.resize(slab_axis);
  const int64_t row = row_elements(slab_axis);
  int64_t place = position / row;
  slab.begin = place % axes[slab_axis];
  for (size_t i = slab_axis; i-- > 0;) {
    place /= axes[i + 1];
    slab.outer[i] = place % axes[i];
  }
  slab.end = std::min(axes[slab_axis], slab.begin + max_rows);
  const auto cut_at = [&](int64_t row_at) {
    if (row_at > slab.begin) slab.end = std::min(slab.end, row_at);
  };
  const auto cut = [&](const Box& box) {
    for (size_t i = 0; i < slab_axis; ++i) {
      const int64_t in_box = slab.outer[i] - box.offsets[i];
      if (in_box < 0 || in_box >= box.sizes[i]) return;
    }
    cut_at(box.offsets[slab_axis]);
    cut_at(box.offsets[slab_axis] + box.sizes[slab_axis]);
  };
  for (const Source& source : sources) cut(source.box);
  for (const Target& target : targets) cut(target.box);
  // On an inner slab axis the whole slab lies in one row of the first axis, where filling begins at
  // a row's start.
  if (slab_axis == 0) cut_at(fill_begin / row);
  return slab;
}

Status Work::add(const Parts& parts) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (parts.targets[i].bytes() > 0) targets[i].filled->add(parts.targets[i]);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (parts.sources[i].bytes() > 0) {
      MEG_RETURN_IF_ERROR(sources[i].recorded->add(parts.sources[i]));
    }
  }
  return Status();
}

Result<PreparedTransfers> prepare_transfers(std::span<const TensorTransfer> transfers,
                                            std::span<const std::unique_ptr<TensorSink>> sinks,
                                            int64_t chunk_bytes, bool check_crcs) {
  MEG_RETURN_IF_ERROR(check_transfers(transfers, sinks));
  return Preparation(transfers, sinks, chunk_bytes, check_crcs).run();
}

}  // namespace meg::checkpoint
