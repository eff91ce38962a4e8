#include "libmeg/checkpoint/container/torch_file/torch_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_set>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_elements.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_file_parts.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/container/zip/internal/zip_format.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/io/crc32.h"
#include "libmeg/text/printable.h"

// One type for files of torch.save, whatever their form, and for files that were never written but
// composed of tensors from elsewhere (compose()), through which code for rank files also reads the
// other dialects.

namespace meg::checkpoint {
namespace {

/// Told after every piece that was summed; false cancels.
using BytesDone = std::function<bool(size_t bytes)>;

}  // namespace

struct TorchFile::State {
  std::string name;     // the path; of a composed file what errors call it
  io::PooledFile file;  // empty where composed
  io::MappedFile map;
  TorchFileParts parts;
  uint64_t bytes = 0;
  bool is_composed = false;

  Status check_entry(const ZipEntry& entry, const BytesDone& done) const;
};

namespace {

/// Small enough to stay in a core's cache between reading and summing.
constexpr size_t kChunkBytes = size_t{256} << 10;

/// Limit for compressed entries, which are small.
constexpr uint64_t kMaxInflatedBytes = uint64_t{64} << 20;

Status tell(const BytesDone& done, size_t bytes, const io::FileDescriptor& file) {
  if (!done || done(bytes)) return {};
  return make_error(StatusCode::kCancelled, "{}: cancelled", file.path());
}

Result<uint32_t> crc_of(const io::FileDescriptor& file, uint64_t offset, uint64_t bytes,
                        const BytesDone& done) {
  std::vector<std::byte> chunk(std::min<uint64_t>(kChunkBytes, bytes));
  uint32_t crc = 0;
  for (uint64_t at = 0; at < bytes;) {
    const auto piece = std::span(chunk).first(std::min<uint64_t>(chunk.size(), bytes - at));
    MEG_RETURN_IF_ERROR(file.read_exactly_at(offset + at, piece));
    crc = io::crc32(piece, crc);
    at += piece.size();
    MEG_RETURN_IF_ERROR(tell(done, piece.size(), file));
  }
  return crc;
}

Result<uint32_t> crc_of(const io::FileDescriptor& file, const ZipEntry& entry,
                        const BytesDone& done) {
  if (entry.is_stored()) return crc_of(file, entry.data_offset, entry.size, done);
  MEG_ASSIGN_OR_RETURN(const auto content, read_zip_entry(file, entry, kMaxInflatedBytes));
  MEG_RETURN_IF_ERROR(tell(done, content.size(), file));
  return io::crc32(content);
}

/// The form of a file, judged by its first bytes.
enum class Form { kZip, kLegacy, kTar, kOther };

Form form_of(std::span<const std::byte> start) {
  const auto holds = [&](size_t at, std::string_view text) {
    return start.size() >= at + text.size() &&
           std::memcmp(&start[at], text.data(), text.size()) == 0;
  };
  // The second is an archive without entries, whose own error is clearer than "no file of torch".
  if (holds(0, "PK\3\4") || holds(0, "PK\5\6")) return Form::kZip;
  if (holds(257, "ustar")) return Form::kTar;
  // A pickle of protocol 2 and above names its protocol first.
  if (holds(0, "\x80")) return Form::kLegacy;
  return Form::kOther;
}

Result<TorchFileParts> read_parts(const io::FileDescriptor& descriptor, const io::MappedFile& map,
                                  PickleBudget* budget, bool check_crc) {
  std::vector<std::byte> start(512);
  MEG_ASSIGN_OR_RETURN(const size_t found, descriptor.read_at(0, start));
  start.resize(found);
  switch (form_of(start)) {
    case Form::kZip: {
      MEG_ASSIGN_OR_RETURN(const io::FileSlice whole, io::FileSlice::whole(descriptor));
      return read_torch_archive(whole, budget, check_crc);
    }
    case Form::kLegacy:
      return read_legacy_torch_file(map, budget);
    case Form::kTar:
      return make_error(StatusCode::kUnsupported, "{}: the tar form of torch < 0.1.10",
                        descriptor.path());
    case Form::kOther:
      break;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(start.data()),
                               std::min<size_t>(start.size(), 8));
  return make_error(StatusCode::kCorruption,
                    "{}: byte 0: expected a file of torch.save (a zip archive or a pickle), found "
                    "{}",
                    descriptor.path(), start.empty() ? "an empty file" : text::printable(bytes));
}

/// Bytes of a source whose elements may be of another type than those that are requested.
Status read_source(const TensorSource& source, uint64_t offset, std::span<std::byte> into) {
  const auto item = static_cast<uint64_t>(dtype_size(source.dtype()));
  const uint64_t first = offset / item;
  // The usual case; only a storage that is read under another dtype than its source's has
  // incomplete elements.
  if (offset % item == 0 && into.size() % item == 0) {
    return source.read(static_cast<int64_t>(first), into);
  }
  std::vector<std::byte> whole((offset + into.size() + item - 1) / item * item - first * item);
  MEG_RETURN_IF_ERROR(source.read(static_cast<int64_t>(first), whole));
  std::memcpy(into.data(), &whole[offset - first * item], into.size());
  return {};
}

}  // namespace

Status TorchFile::State::check_entry(const ZipEntry& entry, const BytesDone& done) const {
  if (!parts.has_crcs) return {};
  MEG_ASSIGN_OR_RETURN(const auto descriptor, file.pin());
  MEG_ASSIGN_OR_RETURN(const uint32_t found, crc_of(*descriptor, entry, done));
  if (found == entry.crc) return {};
  return make_error(StatusCode::kCorruption, "{}: entry {}: CRC-32: expected {:08x}, found {:08x}",
                    file.path(), text::printable(entry.name, 200), entry.crc, found);
}

TorchFile::TorchFile(std::unique_ptr<State> state) : state_(std::move(state)) {}

TorchFile::TorchFile(TorchFile&&) noexcept = default;
TorchFile& TorchFile::operator=(TorchFile&&) noexcept = default;
TorchFile::~TorchFile() = default;

Result<TorchFile> TorchFile::open(const std::string& path, const TorchFileOptions& options) {
  if (path.ends_with(".safetensors")) {
    return make_error(StatusCode::kUnsupported,
                      "{}: a safetensors file: expected the folder with its config.json", path);
  }
  auto state = std::make_unique<State>();
  MEG_ASSIGN_OR_RETURN(state->file, io::PooledFile::open(path));
  MEG_ASSIGN_OR_RETURN(const auto descriptor, state->file.pin());
  // Do not open it by its path, to which another file may have been renamed.
  MEG_ASSIGN_OR_RETURN(state->map,
                       io::MappedFile::map(*descriptor, io::MappedFile::Access::kRandom));
  state->name = path;
  state->bytes = state->map.size();
  PickleBudget own(state->bytes);
  PickleBudget* const budget = options.budget != nullptr ? options.budget : &own;
  MEG_ASSIGN_OR_RETURN(state->parts,
                       read_parts(*descriptor, state->map, budget, options.check_metadata_crcs));
  TorchFile file(std::move(state));
  // The one place where every reader passes: a file that is made of others keeps none of their
  // archives' CRCs.
  if (options.check_metadata_crcs) MEG_RETURN_IF_ERROR(file.check_metadata_crcs());
  return file;
}

Result<TorchFile> TorchFile::compose(const std::string& name, const TorchFileContent& content,
                                     std::vector<std::shared_ptr<const TensorSource>> sources,
                                     uint64_t bytes) {
  auto state = std::make_unique<State>();
  state->name = name;
  state->bytes = bytes;
  state->is_composed = true;
  state->parts.graph = content.graph();
  state->parts.root = content.root;
  MEG_ASSIGN_OR_RETURN(state->parts.tensors, find_torch_tensors(state->parts.graph, name));
  for (TorchStorage& storage : state->parts.tensors.storages) {
    // Keys are those of add_storage().
    storage.source = sources[std::stoul(storage.key)];
    if (static_cast<uint64_t>(storage.source->bytes()) != storage.bytes) {
      return make_error(StatusCode::kInternal, "{}: storage {}: expected {} bytes, found {}", name,
                        storage.key, storage.bytes, storage.source->bytes());
    }
  }
  for (const auto& [id, view] : state->parts.tensors.views) {
    // A source gives elements in one order only.
    if (view.is_contiguous()) continue;
    return make_error(StatusCode::kUnsupported,
                      "{}: a tensor of shape {} whose elements are not contiguous", name,
                      shape_text(view.shape));
  }
  return TorchFile(std::move(state));
}

const std::string& TorchFile::path() const { return state_->name; }

uint64_t TorchFile::size() const { return state_->bytes; }

bool TorchFile::is_composed() const { return state_->is_composed; }

bool TorchFile::is_legacy() const { return state_->parts.is_legacy; }

bool TorchFile::has_crcs() const { return state_->parts.has_crcs; }

bool TorchFile::is_byte_swapped() const { return state_->parts.is_byte_swapped; }

const PickleGraph& TorchFile::graph() const { return state_->parts.graph; }

PickleId TorchFile::root() const { return state_->parts.root; }

std::span<const TorchStorage> TorchFile::storages() const { return state_->parts.tensors.storages; }

const TensorView* TorchFile::tensor(PickleId id) const {
  const auto found = state_->parts.tensors.views.find(id);
  return found == state_->parts.tensors.views.end() ? nullptr : &found->second;
}

std::span<const PickleId> TorchFile::tensor_nodes() const { return state_->parts.tensors.nodes; }

const io::PooledFile& TorchFile::file() const { return state_->file; }

std::optional<std::span<const std::byte>> TorchFile::view(const TensorView& tensor) const {
  const bool is_swapped = is_byte_swapped() && dtype_size(tensor.dtype) > 1;
  if (is_swapped || !tensor.is_contiguous() || is_composed()) return std::nullopt;
  const TorchStorage& storage = storages()[static_cast<size_t>(tensor.storage)];
  // Views are public structs that a caller may have made or changed.
  if (!check_tensor_view(tensor, storage.bytes).ok()) return std::nullopt;
  if (tensor.numel() == 0) return std::span<const std::byte>();
  const auto begin = static_cast<uint64_t>(tensor.offset * dtype_size(tensor.dtype));
  return state_->map.bytes().subspan(storage.file_offset + begin,
                                     static_cast<size_t>(tensor.bytes()));
}

Status TorchFile::read_storage(int storage, uint64_t offset, std::span<std::byte> into) const {
  const TorchStorage& run = storages()[static_cast<size_t>(storage)];
  if (offset > run.bytes || into.size() > run.bytes - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: storage {}: bytes {} to {} of {}", path(),
                      text::printable(run.key), offset, offset + into.size(), run.bytes);
  }
  const auto item = static_cast<uint64_t>(dtype_size(run.dtype));
  if (is_byte_swapped() && (offset % item != 0 || into.size() % item != 0)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: storage {}: bytes {} to {} cut elements of byte-swapped {}", path(),
                      text::printable(run.key), offset, offset + into.size(),
                      dtype_name(run.dtype));
  }
  if (run.source != nullptr) return read_source(*run.source, offset, into);
  MEG_RETURN_IF_ERROR(state_->file.read_exactly_at(run.file_offset + offset, into));
  if (is_byte_swapped()) swap_bytes(run.dtype, into);
  return {};
}

Status TorchFile::read_elements(const TensorView& tensor, int64_t first,
                                std::span<std::byte> into) const {
  const TorchStorage& storage = storages()[static_cast<size_t>(tensor.storage)];
  MEG_RETURN_IF_ERROR(check_tensor_view(tensor, storage.bytes).with_prefix(path()));
  const auto item = static_cast<size_t>(dtype_size(tensor.dtype));
  const int64_t numel = tensor.numel();
  if (into.size() % item != 0 || first < 0 || first > numel ||
      into.size() / item > static_cast<uint64_t>(numel - first)) {
    return make_error(StatusCode::kOutOfRange,
                      "{}: {} bytes from element {} of a tensor of {} elements of {}", path(),
                      into.size(), first, numel, dtype_name(tensor.dtype));
  }
  if (storage.source != nullptr) {
    return read_source(*storage.source, static_cast<uint64_t>(tensor.offset + first) * item, into);
  }
  MEG_ASSIGN_OR_RETURN(const auto file, state_->file.pin());
  MEG_RETURN_IF_ERROR(gather_elements(*file, storage, tensor, first, into));
  if (is_byte_swapped()) swap_bytes(tensor.dtype, into);
  return {};
}

Status TorchFile::check_crc(int storage) const {
  const TorchStorage& run = storages()[static_cast<size_t>(storage)];
  if (run.source != nullptr) return check_recorded_crcs(*run.source).with_prefix(path());
  if (!run.crc.has_value()) return {};
  MEG_ASSIGN_OR_RETURN(const auto file, state_->file.pin());
  MEG_ASSIGN_OR_RETURN(const uint32_t found, crc_of(*file, run.file_offset, run.bytes, {}));
  if (found == *run.crc) return {};
  return make_error(StatusCode::kCorruption,
                    "{}: storage {}: CRC-32: expected {:08x}, found {:08x}", path(),
                    text::printable(run.key), *run.crc, found);
}

Status TorchFile::check_metadata_crcs() const {
  std::unordered_set<uint64_t> places;
  for (const TorchStorage& storage : storages()) {
    // Storages are known by their place: names alone do not say which entries tensors use. An empty
    // one shares its place with the next entry, with which it must not be confused.
    if (storage.bytes > 0) places.insert(storage.file_offset);
  }
  for (const ZipEntry& entry : state_->parts.entries) {
    if (entry.size > 0 && places.contains(entry.data_offset)) continue;
    MEG_RETURN_IF_ERROR(state_->check_entry(entry, {}));
  }
  return {};
}

Status TorchFile::check_crcs(const ProgressCallback& progress) const {
  Progress done = {.total_bytes = 0};
  for (const ZipEntry& entry : state_->parts.entries) {
    done.total_bytes += static_cast<int64_t>(entry.size);
  }
  for (const ZipEntry& entry : state_->parts.entries) {
    MEG_RETURN_IF_ERROR(state_->check_entry(entry, [&](size_t bytes) {
      done.bytes += static_cast<int64_t>(bytes);
      return !progress || progress(done);
    }));
  }
  return {};
}

}  // namespace meg::checkpoint
