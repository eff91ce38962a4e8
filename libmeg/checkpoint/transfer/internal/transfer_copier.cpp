#include "libmeg/checkpoint/transfer/internal/transfer_copier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

using Work = TransferWork;

/// Buffers are allocated when they are first needed and at their full size, so that a transfer that
/// neither converts nor reorders nor assembles costs one chunk, and nothing is allocated again.
std::span<std::byte> first_bytes(std::vector<std::byte>* buffer, int64_t capacity, int64_t bytes) {
  if (buffer->empty()) buffer->resize(static_cast<size_t>(capacity));
  return std::span(*buffer).first(static_cast<size_t>(bytes));
}

/// Whether two boxes have the same part of the axes inside of an axis.
bool is_same_inside(const Box& a, const Box& b, size_t axis) {
  const auto from = static_cast<ptrdiff_t>(axis) + 1;
  return std::equal(a.offsets.begin() + from, a.offsets.end(), b.offsets.begin() + from) &&
         std::equal(a.sizes.begin() + from, a.sizes.end(), b.sizes.begin() + from);
}

/// Whether they have some part of them in common.
bool meet_inside(const Box& a, const Box& b, size_t axis) {
  for (size_t i = axis + 1; i < a.sizes.size(); ++i) {
    if (a.offsets[i] >= b.offsets[i] + b.sizes[i] || b.offsets[i] >= a.offsets[i] + a.sizes[i]) {
      return false;
    }
  }
  return true;
}

/// One box of bytes in memory, of which a part is copied from or to.
struct Area {
  const Box* box = nullptr;
  size_t row = 0;  ///< Bytes of a row of the axis that is being copied.
};

/// Copies what two boxes have in common of `rows` rows of an axis, whose rows both have.
void copy_common(const Area& from, const std::byte* from_bytes, const Area& to, std::byte* to_bytes,
                 size_t axis, int64_t rows, size_t element) {
  const size_t inner = axis + 1;
  if (inner == from.box->sizes.size()) {
    std::memcpy(to_bytes, from_bytes, static_cast<size_t>(rows) * element);
    return;
  }
  const auto size = [&](const Area& area) { return static_cast<size_t>(area.box->sizes[inner]); };
  const int64_t begin = std::max(from.box->offsets[inner], to.box->offsets[inner]);
  const int64_t end = std::min(from.box->offsets[inner] + from.box->sizes[inner],
                               to.box->offsets[inner] + to.box->sizes[inner]);
  const Area from_inner{from.box, from.row / size(from)};
  const Area to_inner{to.box, to.row / size(to)};
  from_bytes += static_cast<size_t>(begin - from.box->offsets[inner]) * from_inner.row;
  to_bytes += static_cast<size_t>(begin - to.box->offsets[inner]) * to_inner.row;
  for (int64_t i = 0; i < rows; ++i) {
    copy_common(from_inner, from_bytes, to_inner, to_bytes, inner, end - begin, element);
    from_bytes += from.row;
    to_bytes += to.row;
  }
}

/// Elements of a row of an axis of a box.
int64_t row_of(const Box& box, size_t axis) {
  int64_t row = 1;
  for (size_t i = axis + 1; i < box.sizes.size(); ++i) row *= box.sizes[i];
  return row;
}

}  // namespace

/// Jobs begin where a slab may begin: at multiples of a row of slab_axis, which slab_at() requires.
/// A job also ends where the set of boxes that have the rows changes, even where it is small: only
/// then does it write to one set of files, by which the executor deals jobs out
/// (docs/performance.md, "Moving tensors": TP4 PP1 2.27 s -> 2.11 s). Runs shorter than a slab
/// are not worth a job of their own.
void split_work(Work& work, int64_t job_bytes, std::vector<TransferJob>* jobs) {
  const int64_t total = work.elements();
  if (total == 0) return;
  const int64_t row = work.row_elements(work.slab_axis);
  const int64_t step = work.slab_rows * row;
  const int64_t size = std::max(work.source_size(), work.target_size());
  const int64_t job = std::max<int64_t>(job_bytes / (step * size), 1) * step;
  for (int64_t begin = 0; begin < total;) {
    const Slab together = work.slab_at(begin, work.axes[work.slab_axis]);
    const int64_t same = (together.end - together.begin) * row;
    const int64_t end = std::min({begin + job, total, begin + std::max(same, step)});
    jobs->push_back({&work, begin, end});
    begin = end;
  }
}

TransferCopier::TransferCopier(int64_t chunk_bytes, std::function<bool(int64_t)> progress)
    : chunk_bytes_(chunk_bytes), progress_(std::move(progress)) {}

Status TransferCopier::run(const TransferJob& job) {
  Work& work = *job.work;
  parts_ = work.no_parts();
  whole_ = Box::whole(work.axes);
  const int64_t row = work.row_elements(work.slab_axis);
  for (int64_t position = job.begin; position < job.end;) {
    // First as far as the same boxes contain it; limited to a chunk only if there is something to
    // copy, so that rows without a target are skipped in one step, however many they are.
    Slab slab = work.slab_at(position, (job.end - position) / row);
    if (begin_slab(work, slab, position)) {
      slab.end = std::min(slab.end, slab.begin + work.slab_rows);
      MEG_RETURN_IF_ERROR(copy_slab(work, slab, position));
      MEG_RETURN_IF_ERROR(report());
    }
    position += (slab.end - slab.begin) * row;
  }
  // CRCs of parts are handed over once a job: the work's lock is taken seldom, and neighbouring
  // slabs have been joined to one part before.
  return work.add(parts_);
}

/// Finds the targets that take part of a slab; false if nothing of it has to be read.
bool TransferCopier::begin_slab(const Work& work, const Slab& slab, int64_t position) {
  taken_.clear();
  for (size_t t = 0; t < work.targets.size(); ++t) {
    if (run_in(work.targets[t].box, slab).has_value()) taken_.push_back({t, {}});
  }
  // Rows past the source's end have nothing to be read for its CRC.
  if (position >= work.fill_begin) return !taken_.empty();
  return std::any_of(work.sources.begin(), work.sources.end(), [&](const Work::Source& source) {
    return run_in(source.box, slab).has_value() && is_needed(work, source, slab.axis());
  });
}

/// Whether a source that has some of the slab is to be read for its CRC or for a target.
bool TransferCopier::is_needed(const Work& work, const Work::Source& source, size_t axis) const {
  // A recorded CRC needs all of its bytes, also those that no target takes: the dropped padding of
  // a vocabulary, for example.
  return source.recorded != nullptr ||
         std::any_of(taken_.begin(), taken_.end(), [&](const Taken& taken) {
           return meet_inside(source.box, work.targets[taken.target].box, axis);
         });
}

Status TransferCopier::copy_slab(const Work& work, const Slab& slab, int64_t position) {
  used_ = 0;
  chunks_.clear();
  for (Taken& taken : taken_) taken.run = *run_in(work.targets[taken.target].box, slab);
  if (position < work.fill_begin) {
    MEG_RETURN_IF_ERROR(read_sources(work, slab));
  } else {
    const int64_t rows = slab.end - slab.begin;
    MEG_RETURN_IF_ERROR(fill(work, position, rows * work.row_elements(slab.axis())));
  }
  // Write only after all sources are read: a target's run may need several of them.
  for (const Taken& taken : taken_) MEG_RETURN_IF_ERROR(write_taken(work, slab, taken));
  return Status();
}

/// Reads what is taken, and what is to be checked, of every source.
Status TransferCopier::read_sources(const Work& work, const Slab& slab) {
  for (size_t s = 0; s < work.sources.size(); ++s) {
    const Box& box = work.sources[s].box;
    const std::optional<SlabRun> run = run_in(box, slab);
    if (!run.has_value() || !is_needed(work, work.sources[s], slab.axis())) continue;
    const std::span<std::byte> into = room_for(work, box, run->count);
    MEG_ASSIGN_OR_RETURN(const Chunk chunk, read(work, s, *run, into));
    chunks_.push_back(chunk);
  }
  return Status();
}

/// Where a source's run is read to: into the memory of the one target that takes just that, or the
/// next bytes of the buffer.
std::span<std::byte> TransferCopier::room_for(const Work& work, const Box& source, int64_t count) {
  const auto bytes = static_cast<size_t>(count * work.target_size());
  // Where one target takes just this run, reading into its memory is the whole copy.
  if (taken_.size() == 1 && taken_[0].run.count == count) {
    const Work::Target& target = work.targets[taken_[0].target];
    const std::span<std::byte> memory = target.sink->memory();
    if (!memory.empty() && is_same_inside(source, target.box, work.slab_axis)) {
      const int64_t first = taken_[0].run.first * work.target_size();
      return memory.subspan(target.offset + static_cast<uint64_t>(first), bytes);
    }
  }
  // The runs of a slab's sources are disjoint and the slab is no larger than a chunk, so one chunk
  // holds all of them side by side.
  used_ += bytes;
  return first_bytes(&chunk_, chunk_bytes_, chunk_bytes_).subspan(used_ - bytes, bytes);
}

/// Elements past the source's end: zeros, or its last row again. No part of its CRC.
Status TransferCopier::fill(const Work& work, int64_t position, int64_t count) {
  const std::span<std::byte> into = room_for(work, whole_, count);
  // Without any source row there is none to repeat.
  const bool is_hole = work.fill == PaddingFill::kZero || work.fill_begin == 0;
  if (!is_hole) {
    const auto size = static_cast<size_t>(work.target_size());
    const size_t row_bytes = static_cast<size_t>(work.last_row) * size;
    for (size_t done = 0; done < into.size();) {
      const std::span<std::byte> left = into.subspan(done);
      if (done >= row_bytes) {  // a whole row stands there already
        const size_t again = std::min(row_bytes, left.size());
        std::memcpy(left.data(), left.data() - row_bytes, again);
        done += again;
        continue;
      }
      // A slab may begin within a row of the first axis, where that alone exceeds a chunk; the row
      // before the fill is then read again in each of its slabs.
      const int64_t in_row = (position + static_cast<int64_t>(done / size)) % work.last_row;
      const auto row_left = static_cast<size_t>(work.last_row - in_row) * size;
      const auto piece = left.first(std::min(row_left, left.size()));
      MEG_RETURN_IF_ERROR(gather(work, work.fill_begin - work.last_row + in_row, piece));
      done += piece.size();
    }
  }
  chunks_.push_back({&whole_, into, is_hole, {}});
  return Status();
}

/// Elements from `position` on, wherever they lie, run by run.
Status TransferCopier::gather(const Work& work, int64_t position, std::span<std::byte> into) {
  const auto size = static_cast<size_t>(work.target_size());
  const size_t last = work.axes.size() - 1;
  while (!into.empty()) {
    int64_t place = position;
    Slab slab;
    slab.outer.resize(last);
    for (size_t i = work.axes.size(); i-- > 0;) {
      (i == last ? slab.begin : slab.outer[i]) = place % work.axes[i];
      place /= work.axes[i];
    }
    slab.end = slab.begin + 1;
    // Sources tile the whole (check_transfers()), so one of them has the element.
    size_t source = 0;
    std::optional<SlabRun> run;
    while (!(run = run_in(work.sources[source].box, slab)).has_value()) ++source;
    const Box& box = work.sources[source].box;
    const auto count = std::min(box.offsets[last] + box.sizes[last] - slab.begin,
                                static_cast<int64_t>(into.size() / size));
    const auto piece = into.first(static_cast<size_t>(count) * size);
    MEG_RETURN_IF_ERROR(load(work, source, run->first, count, piece).status());
    into = into.subspan(piece.size());
    position += count;
  }
  return Status();
}

/// Reads elements of a source and converts them into `into`; returns them as they were read.
Result<std::span<const std::byte>> TransferCopier::load(const Work& work, size_t source,
                                                        int64_t first, int64_t count,
                                                        std::span<std::byte> into) {
  const TransferReader& reader = work.sources[source].reader;
  const bool converts = work.source_dtype != work.target_dtype;
  // Bytes are converted on their way out of a buffer of their own; the CRC is that of the bytes as
  // the file has them, which is why they are returned.
  const auto raw = converts ? first_bytes(&raw_, chunk_bytes_, count * work.source_size()) : into;
  std::span<std::byte> scratch;
  if (reader.is_reordered()) scratch = first_bytes(&scratch_, 2 * chunk_bytes_, 2 * chunk_bytes_);
  MEG_RETURN_IF_ERROR(reader.read(first, raw, scratch));
  if (converts) {
    MEG_RETURN_IF_ERROR(convert_floats(work.source_dtype, raw, work.target_dtype, into));
  }
  return std::span<const std::byte>(raw);
}

Result<TransferCopier::Chunk> TransferCopier::read(const Work& work, size_t source, SlabRun run,
                                                   std::span<std::byte> into) {
  const Work::Source& from = work.sources[source];
  const auto offset = from.recorded_offset + static_cast<uint64_t>(run.first * work.source_size());
  const auto length = static_cast<uint64_t>(run.count * work.source_size());
  Chunk chunk{&from.box, into, from.reader.is_hole(run.first, run.count), {}};
  if (chunk.is_hole) {
    if (from.recorded != nullptr) {
      parts_.sources[source].add(offset, length, io::crc32_of_zeros(length));
    }
    return chunk;
  }
  MEG_ASSIGN_OR_RETURN(const auto raw, load(work, source, run.first, run.count, into));
  if (from.recorded != nullptr) {
    const uint32_t crc = io::crc32(raw);
    parts_.sources[source].add(offset, length, crc);
    // Checked and written bytes are the same ones: the target's header needs no second pass over
    // them.
    if (work.source_dtype == work.target_dtype) chunk.crc = crc;
  }
  return chunk;
}

Status TransferCopier::write_taken(const Work& work, const Slab& slab, const Taken& taken) {
  const Box& box = work.targets[taken.target].box;
  for (Chunk& chunk : chunks_) {
    if (is_same_inside(*chunk.box, box, slab.axis())) return write(work, taken, &chunk);
  }
  Chunk chunk = assemble(work, slab, taken);
  return write(work, taken, &chunk);
}

/// Puts a target's run together, in its memory where it has any.
TransferCopier::Chunk TransferCopier::assemble(const Work& work, const Slab& slab,
                                               const Taken& taken) {
  const Work::Target& target = work.targets[taken.target];
  const auto size = static_cast<size_t>(work.target_size());
  const int64_t bytes = taken.run.count * work.target_size();
  const std::span<std::byte> memory = target.sink->memory();
  const auto first = target.offset + static_cast<uint64_t>(taken.run.first) * size;
  const auto out = memory.empty() ? first_bytes(&gathered_, chunk_bytes_, bytes)
                                  : memory.subspan(first, static_cast<size_t>(bytes));
  Chunk made{&target.box, out, true, {}};
  const auto area = [&](const Box& box) {
    return Area{&box, static_cast<size_t>(row_of(box, slab.axis())) * size};
  };
  const auto meets = [&](const Chunk& chunk) {
    return meet_inside(*chunk.box, target.box, slab.axis());
  };
  for (const Chunk& chunk : chunks_) made.is_hole &= chunk.is_hole || !meets(chunk);
  if (made.is_hole) return made;
  for (const Chunk& chunk : chunks_) {
    if (!meets(chunk)) continue;
    // A hole was not read, so its part of the buffer holds what the last slab left there.
    if (chunk.is_hole) std::memset(chunk.bytes.data(), 0, chunk.bytes.size());
    copy_common(area(*chunk.box), chunk.bytes.data(), area(target.box), out.data(), slab.axis(),
                slab.end - slab.begin, size);
  }
  return made;
}

/// Writes a target's run; holes stay holes.
Status TransferCopier::write(const Work& work, const Taken& taken, Chunk* chunk) {
  const Work::Target& to = work.targets[taken.target];
  const auto size = static_cast<uint64_t>(work.target_size());
  const uint64_t offset = to.offset + static_cast<uint64_t>(taken.run.first) * size;
  const uint64_t length = chunk->bytes.size();
  if (to.filled != nullptr) {
    // Kept in the chunk: replicas and tied copies of the same run take it from there.
    if (!chunk->crc)
      chunk->crc = chunk->is_hole ? io::crc32_of_zeros(length) : io::crc32(chunk->bytes);
    parts_.targets[taken.target].add(offset, length, *chunk->crc);
  }
  written_ += static_cast<int64_t>(length);
  if (chunk->is_hole) {
    if (to.sink->starts_as_zeros()) return Status();
    std::memset(chunk->bytes.data(), 0, length);
  }
  const std::span<std::byte> memory = to.sink->memory();
  const bool is_there = !memory.empty() && memory.data() + offset == chunk->bytes.data();
  return is_there ? Status() : to.sink->write(offset, chunk->bytes);
}

Status TransferCopier::report() {
  if (progress_(std::exchange(written_, 0))) return Status();
  return Status(StatusCode::kCancelled, "cancelled");
}

}  // namespace meg::checkpoint
