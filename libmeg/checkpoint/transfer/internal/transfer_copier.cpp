#include "libmeg/checkpoint/transfer/internal/transfer_copier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

using Work = TransferWork;

int64_t plane(const Work& work) { return work.extent * work.inner; }

int64_t larger_size(const Work& work) { return std::max(work.source_size(), work.target_size()); }

/// Elements of a chunk: whole rows of the cut axis where they fit and the source is read anyhow
/// block by block.
int64_t chunk_elements(const Work& work, int64_t chunk_bytes) {
  const int64_t most = std::max<int64_t>(chunk_bytes / larger_size(work), 1);
  const bool is_direct = std::all_of(work.sources.begin(), work.sources.end(),
                                     [](const auto& source) { return source.reader.is_direct(); });
  return is_direct || work.inner > most ? most : most / work.inner * work.inner;
}

/// How many rows of the outer axes are copied at once; 0 where runs are copied one by one.
int64_t rows_at_once(const Work& work, int64_t chunk_bytes) {
  return work.outer == 1 ? 0 : chunk_bytes / (plane(work) * larger_size(work));
}

std::span<std::byte> first_bytes(std::vector<std::byte>* buffer, int64_t capacity, int64_t bytes) {
  if (buffer->empty()) buffer->resize(static_cast<size_t>(capacity));
  return std::span(*buffer).first(static_cast<size_t>(bytes));
}

/// Which elements of a row `part` (a source or target) has, and where they begin.
template <class Part>
std::pair<int64_t, int64_t> stretch(const Work& work, const Part& part) {
  return {part.begin * work.inner, (part.end - part.begin) * work.inner};
}

/// Position of the box's element (row, in_row) within `part`.
template <class Part>
int64_t element_in(const Work& work, const Part& part, int64_t row, int64_t in_row) {
  const auto [begin, length] = stretch(work, part);
  return row * length + in_row - begin;
}

/// Copies `count` runs of run_bytes, which stand from_step bytes apart in `from`, to_step in `to`.
void copy_runs(const std::byte* from, size_t from_step, std::byte* to, size_t to_step,
               size_t run_bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, run_bytes);
  }
}

/// Where the segment that holds `position` ends: what lies before it goes to the same targets.
int64_t segment_end(const Work& work, int64_t position) {
  const int64_t in_row = position % plane(work);
  for (const auto& segment : work.segments) {
    if (segment.end * work.inner > in_row) return position - in_row + segment.end * work.inner;
  }
  return position - in_row + plane(work);
}

}  // namespace

void split_work(Work& work, int64_t job_bytes, int64_t chunk_bytes,
                std::vector<TransferJob>* jobs) {
  const int64_t total = work.outer * plane(work);
  if (total == 0) return;
  const int64_t rows = rows_at_once(work, chunk_bytes);
  const int64_t step = rows > 0 ? rows * plane(work) : chunk_elements(work, chunk_bytes);
  const int64_t job = std::max<int64_t>(job_bytes / (step * larger_size(work)), 1) * step;
  for (int64_t begin = 0; begin < total;) {
    int64_t end = std::min(begin + job, total);
    if (rows == 0) end = std::min(end, std::max(segment_end(work, begin), begin + step));
    jobs->push_back({&work, begin, end});
    ++work.jobs_left;
    begin = end;
  }
}

TransferCopier::TransferCopier(int64_t chunk_bytes, std::function<bool(int64_t)> goes_on)
    : chunk_bytes_(chunk_bytes), goes_on_(std::move(goes_on)) {}

Status TransferCopier::run(const TransferJob& job) {
  parts_ = job.work->no_parts();
  const int64_t rows = rows_at_once(*job.work, chunk_bytes_);
  MEG_RETURN_IF_ERROR(rows > 0 ? run_rows(job, rows) : run_stretches(job));
  job.work->add(parts_);
  return Status();
}

Status TransferCopier::run_rows(const TransferJob& job, int64_t rows_at_once) {
  const int64_t last = job.end / plane(*job.work);
  for (int64_t row = job.begin / plane(*job.work); row < last; row += rows_at_once) {
    MEG_RETURN_IF_ERROR(copy_rows(*job.work, row, std::min(rows_at_once, last - row)));
    MEG_RETURN_IF_ERROR(go_on());
  }
  return Status();
}

Status TransferCopier::run_stretches(const TransferJob& job) {
  for (int64_t position = job.begin; position < job.end;) {
    MEG_ASSIGN_OR_RETURN(const int64_t count,
                         copy_stretch(*job.work, position, job.end - position));
    MEG_RETURN_IF_ERROR(go_on());
    position += count;
  }
  return Status();
}

/// Copies what lies at `position` as far as one segment and one chunk go; returns the elements.
Result<int64_t> TransferCopier::copy_stretch(const Work& work, int64_t position, int64_t limit) {
  const int64_t row = position / plane(work);
  const int64_t in_row = position % plane(work);
  const auto segment =
      std::partition_point(work.segments.begin(), work.segments.end(),
                           [&](const auto& one) { return one.end * work.inner <= in_row; });
  const int64_t left = segment->end * work.inner - in_row;
  const bool has_source = segment->source >= 0;
  const auto source = static_cast<size_t>(std::max(segment->source, 0));
  if (segment->targets.empty() && !(has_source && work.sources[source].checks_crc)) {
    return std::min(left, limit);
  }
  const int64_t count = std::min({left, limit, chunk_elements(work, chunk_bytes_)});
  Chunk chunk{{}, true, {}};
  if (has_source) {
    const auto into = first_bytes(&chunk_, chunk_bytes_, count * work.target_size());
    const int64_t first = element_in(work, work.sources[source], row, in_row);
    MEG_ASSIGN_OR_RETURN(chunk, read(work, source, first, count, into));
  } else if (segment->source == Work::Segment::kLastRow) {
    const auto into = first_bytes(&chunk_, chunk_bytes_, count * work.target_size());
    MEG_ASSIGN_OR_RETURN(chunk, repeat_last_row(work, position, into));
  }
  for (const int index : segment->targets) {
    const auto target = static_cast<size_t>(index);
    const int64_t first = element_in(work, work.targets[target], row, in_row);
    MEG_RETURN_IF_ERROR(write(work, target, first, count, &chunk));
  }
  return count;
}

Status TransferCopier::copy_rows(const Work& work, int64_t first_row, int64_t rows) {
  const auto size = static_cast<size_t>(work.target_size());
  std::vector<Chunk> parts(work.sources.size());
  std::span<std::byte> room =
      first_bytes(&chunk_, chunk_bytes_, rows * plane(work) * work.target_size());
  for (size_t s = 0; s < parts.size(); ++s) {
    const int64_t length = stretch(work, work.sources[s]).second;
    const auto bytes = static_cast<size_t>(rows * length) * size;
    MEG_ASSIGN_OR_RETURN(parts[s],
                         read(work, s, first_row * length, rows * length, room.first(bytes)));
    if (parts[s].is_hole) std::memset(room.data(), 0, bytes);
    room = room.subspan(bytes);
  }
  for (size_t t = 0; t < work.targets.size(); ++t) {
    const auto [target_begin, target_length] = stretch(work, work.targets[t]);
    const auto out =
        first_bytes(&gathered_, chunk_bytes_, rows * target_length * work.target_size());
    Chunk chunk{out, true, {}};
    for (size_t s = 0; s < parts.size(); ++s) {
      const auto [source_begin, source_length] = stretch(work, work.sources[s]);
      const int64_t begin = std::max(source_begin, target_begin);
      const int64_t end = std::min(source_begin + source_length, target_begin + target_length);
      if (begin >= end) continue;
      chunk.is_hole = chunk.is_hole && parts[s].is_hole;
      copy_runs(parts[s].bytes.data() + static_cast<size_t>(begin - source_begin) * size,
                static_cast<size_t>(source_length) * size,
                out.data() + static_cast<size_t>(begin - target_begin) * size,
                static_cast<size_t>(target_length) * size, static_cast<size_t>(end - begin) * size,
                static_cast<size_t>(rows));
    }
    MEG_RETURN_IF_ERROR(write(work, t, first_row * target_length, rows * target_length, &chunk));
  }
  return Status();
}

/// Reads elements of a source and converts them into `into`; returns them as they were read.
Result<std::span<const std::byte>> TransferCopier::load(const Work& work, size_t source,
                                                        int64_t first, int64_t count,
                                                        std::span<std::byte> into) {
  const TransferReader& reader = work.sources[source].reader;
  const bool converts = work.source_dtype != work.target_dtype;
  const auto raw = converts ? first_bytes(&raw_, chunk_bytes_, count * work.source_size()) : into;
  std::span<std::byte> scratch;
  if (!reader.is_direct()) scratch = first_bytes(&scratch_, 2 * chunk_bytes_, 2 * chunk_bytes_);
  MEG_RETURN_IF_ERROR(reader.read(first, raw, scratch));
  if (converts) {
    MEG_RETURN_IF_ERROR(convert_floats(work.source_dtype, raw, work.target_dtype, into));
  }
  return std::span<const std::byte>(raw);
}

Result<TransferCopier::Chunk> TransferCopier::read(const Work& work, size_t source, int64_t first,
                                                   int64_t count, std::span<std::byte> into) {
  const auto& from = work.sources[source];
  const auto offset = static_cast<uint64_t>(first * work.source_size());
  const auto length = static_cast<uint64_t>(count * work.source_size());
  if (from.reader.is_hole(first, count)) {
    if (from.checks_crc) parts_.sources[source].add(offset, length, io::crc32_of_zeros(length));
    return Chunk{into, true, {}};
  }
  Chunk chunk{into, false, {}};
  MEG_ASSIGN_OR_RETURN(const auto raw, load(work, source, first, count, into));
  if (from.checks_crc) {
    const uint32_t crc = io::crc32(raw);
    parts_.sources[source].add(offset, length, crc);
    if (work.source_dtype == work.target_dtype) chunk.crc = crc;
  }
  return chunk;
}

/// Elements past the source's end, which repeat its last row. No part of its CRC.
Result<TransferCopier::Chunk> TransferCopier::repeat_last_row(const Work& work, int64_t position,
                                                              std::span<std::byte> into) {
  const auto has_rows = [](const auto& source) { return source.begin < source.end; };
  const auto last = std::find_if(work.sources.rbegin(), work.sources.rend(), has_rows);
  const auto source = static_cast<size_t>(work.sources.rend() - last) - 1;
  const auto size = static_cast<size_t>(work.target_size());
  const size_t row_bytes = static_cast<size_t>(work.inner) * size;
  const int64_t row_begin = (last->end - last->begin - 1) * work.inner;
  for (size_t done = 0; done < into.size();) {
    if (done >= row_bytes) {  // a whole row stands there already
      const size_t again = std::min(row_bytes, into.size() - done);
      std::memcpy(into.data() + done, into.data() + done - row_bytes, again);
      done += again;
      continue;
    }
    const int64_t in_row = (position + static_cast<int64_t>(done / size)) % work.inner;
    const auto left = static_cast<int64_t>((into.size() - done) / size);
    const int64_t count = std::min(work.inner - in_row, left);
    const auto piece = into.subspan(done, static_cast<size_t>(count) * size);
    MEG_RETURN_IF_ERROR(load(work, source, row_begin + in_row, count, piece).status());
    done += piece.size();
  }
  return Chunk{into, false, {}};
}

/// Writes elements [first, first + count) of a target; holes stay holes.
Status TransferCopier::write(const Work& work, size_t target, int64_t first, int64_t count,
                             Chunk* chunk) {
  const auto& to = work.targets[target];
  const auto offset = static_cast<uint64_t>(first * work.target_size());
  const auto length = static_cast<uint64_t>(count * work.target_size());
  if (!chunk->crc)
    chunk->crc = chunk->is_hole ? io::crc32_of_zeros(length) : io::crc32(chunk->bytes);
  if (!chunk->is_hole) MEG_RETURN_IF_ERROR(to.writer->write(to.storage, offset, chunk->bytes));
  parts_.targets[target].add(offset, length, *chunk->crc);
  written_ += static_cast<int64_t>(length);
  return Status();
}

Status TransferCopier::go_on() {
  if (goes_on_(std::exchange(written_, 0))) return Status();
  return Status(StatusCode::kCancelled, "cancelled");
}

}  // namespace meg::checkpoint
