#include <algorithm>
#include <unordered_map>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_file_parts.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

/// 0x1950a86a20f9469cfc6c as a pickle keeps it: little-endian two's complement.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t kProtocol = 1001;

/// Reads the pickles one after another.
///
/// torch.save's form up to 1.5: five pickles (magic number, protocol, system info, value, keys of
/// storages), then the storages themselves. None of the pickles states its length, so each begins
/// where the one before has its STOP.
class PickleSequence {
 public:
  PickleSequence(const io::MappedFile& file, PickleBudget* budget)
      : file_(file), budget_(*budget) {}

  Result<PickleId> next(std::string_view what, PickleGraph* graph) {
    // All five share one budget, which is that of the file.
    const size_t before = graph->size();
    const std::string name = fmt::format("{}: {} at byte {}", file_.path(), what, position_);
    MEG_ASSIGN_OR_RETURN(const PickleStream stream, read_pickle(file_.bytes().subspan(position_),
                                                                name, graph, budget_.values()));
    budget_.take_values(graph->size() - before);
    position_ += stream.size;
    return stream.root;
  }

  size_t position() const { return position_; }

 private:
  const io::MappedFile& file_;
  PickleBudget& budget_;
  size_t position_ = 0;
};

/// Finds each storage's bytes: in the order of `keys`, a count of elements and the elements.
/// Both are little-endian whatever machine wrote them; torch never looks at what the file says
/// about the writer's byte order either.
Status place_storages(const io::MappedFile& file, uint64_t position, const PickleGraph& graph,
                      PickleId keys, std::vector<TorchStorage>* storages) {
  const auto refuse = [&](const std::string& what) {
    return make_error(StatusCode::kCorruption, "{}: {}", file.path(), what);
  };
  if (graph.node(keys).kind != PickleKind::kList) {
    return refuse("expected a list of storage keys, found " + graph.describe(keys));
  }
  std::unordered_map<std::string_view, TorchStorage*> left;
  // Each key leaves the map when it is placed: one that comes twice is then unknown, and what is
  // left over at the end has no bytes.
  for (TorchStorage& storage : *storages) left.emplace(storage.key, &storage);
  for (const PickleId id : graph.node(keys).children) {
    const auto key = graph.as_string(id);
    const auto found = key ? left.find(*key) : left.end();
    if (found == left.end()) {
      return refuse("list of storage keys: expected a key of a tensor's storage once, found " +
                    graph.describe(id));
    }
    TorchStorage& storage = *found->second;
    left.erase(found);
    const std::string where = fmt::format("storage {} at byte {}", text::printable(*key), position);
    const uint64_t available = file.size() - position;
    if (available < 8) return refuse(where + ": expected a count of 8 bytes, the file ends");
    const auto elements = load_le<uint64_t>(&file.bytes()[position]);
    const uint64_t expected = storage.bytes / static_cast<uint64_t>(dtype_size(storage.dtype));
    if (elements != expected) {
      return refuse(fmt::format("{}: expected {} elements, found {}", where, expected, elements));
    }
    if (storage.bytes > available - 8) {
      return refuse(
          fmt::format("{}: expected {} bytes, found {}", where, storage.bytes, available - 8));
    }
    storage.file_offset = position + 8;
    position += 8 + storage.bytes;
  }
  if (!left.empty()) {
    return refuse(fmt::format("storage {}: expected it in the list of storage keys, found none",
                              text::printable(left.begin()->first)));
  }
  return {};
}

}  // namespace

Result<TorchFileParts> read_legacy_torch_file(const io::MappedFile& file, PickleBudget* budget) {
  TorchFileParts parts;
  parts.is_legacy = true;
  PickleGraph preamble;
  PickleSequence pickles(file, budget);
  MEG_ASSIGN_OR_RETURN(const PickleId magic, pickles.next("magic number", &preamble));
  const PickleNode& number = preamble.node(magic);
  if (number.kind != PickleKind::kBigInt || number.text != kMagic) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte 0: expected the magic number 0x1950a86a20f9469cfc6c, found {}",
                      file.path(), preamble.describe(magic));
  }
  MEG_ASSIGN_OR_RETURN(const PickleId protocol, pickles.next("protocol version", &preamble));
  if (preamble.as_int(protocol) != kProtocol) {
    return make_error(StatusCode::kUnsupported, "{}: protocol version: expected {}, found {}",
                      file.path(), kProtocol, preamble.describe(protocol));
  }
  MEG_ASSIGN_OR_RETURN(const PickleId machine, pickles.next("system info", &preamble));
  if (preamble.node(machine).kind != PickleKind::kDict) {
    return make_error(StatusCode::kCorruption, "{}: system info: expected a dict, found {}",
                      file.path(), preamble.describe(machine));
  }
  // Read into a graph of its own, which is kept; the preamble's is dropped.
  MEG_ASSIGN_OR_RETURN(parts.root, pickles.next("value", &parts.graph));
  MEG_ASSIGN_OR_RETURN(const PickleId keys, pickles.next("storage keys", &preamble));
  MEG_ASSIGN_OR_RETURN(parts.tensors, find_torch_tensors(parts.graph, file.path()));
  MEG_RETURN_IF_ERROR(
      place_storages(file, pickles.position(), preamble, keys, &parts.tensors.storages));
  return parts;
}

}  // namespace meg::checkpoint
