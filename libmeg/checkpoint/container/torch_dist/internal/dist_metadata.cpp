#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/text/printable.h"

// .metadata is a pickle of dataclasses of torch.distributed.checkpoint.metadata. It names items
// twice: state_dict_metadata says what they are, storage_data where their bytes are. The reader
// matches both and removes each place that it uses, so that a place without an item and an item
// without a place are detected.

namespace meg::checkpoint {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata.";

/// Whether a path of a file stays below the folder that it is relative to: a checkpoint must not
/// make us read other files.
bool is_inside_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != path.npos) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

class MetadataReader {
 public:
  MetadataReader(const PickleGraph& graph, const std::string& name, DistCoverage coverage)
      : graph_(graph), name_(name), coverage_(coverage) {}

  Status read(PickleId root, DistMetadata* found) {
    found_ = found;
    const std::string class_name = graph_.class_name(root);
    // Compare the end of the name: it is torch's Metadata, or Megatron's MCoreMetadata, which has
    // the same fields.
    if (!class_name.ends_with(".Metadata") && !class_name.ends_with(".MCoreMetadata")) {
      return refuse("expected torch's Metadata, found {}", graph_.describe(root, 60));
    }
    MEG_ASSIGN_OR_RETURN(const PickleId items, attribute(root, "state_dict_metadata", "Metadata"));
    MEG_ASSIGN_OR_RETURN(const PickleId places, attribute(root, "storage_data", "Metadata"));
    MEG_RETURN_IF_ERROR(read_places(places));
    MEG_RETURN_IF_ERROR(read_items(items));
    // An item that storage_data has and nothing describes.
    if (places_.empty()) return {};
    const auto& [fqn, offsets] = places_.begin()->first;
    return refuse("storage_data: {} at {}: expected a chunk of this name, found none",
                  text::printable(fqn, 200), shape_text(offsets));
  }

 private:
  /// A name, and where a chunk of it begins; of objects nothing.
  using Key = std::pair<std::string, std::vector<int64_t>>;

  template <class... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(StatusCode::kCorruption, "{}: {}", name_,
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Result<PickleId> attribute(PickleId object, std::string_view name, std::string_view where) const {
    const std::optional<PickleId> value = graph_.attribute(object, name);
    if (value.has_value()) return *value;
    return refuse("{}: expected {}, found none", where, name);
  }

  bool is_of_class(PickleId id, std::string_view class_name) const {
    const std::string found = graph_.class_name(id);
    return found.starts_with(kMetadataModule) &&
           std::string_view(found).substr(kMetadataModule.size()) == class_name;
  }

  /// torch.Size(...), or the tuple itself.
  Result<std::vector<int64_t>> sizes(PickleId id, std::string_view where) const {
    // torch pickles torch.Size as a call with one tuple.
    if (graph_.class_name(id) == "torch.Size" && graph_.node(id).kind == PickleKind::kCall) {
      const std::vector<PickleId>& arguments = graph_.node(graph_.node(id).children[1]).children;
      if (arguments.size() == 1) id = arguments[0];
    }
    const PickleNode& node = graph_.node(id);
    std::vector<int64_t> values;
    bool is_valid = node.kind == PickleKind::kTuple || node.kind == PickleKind::kList;
    for (size_t i = 0; is_valid && i < node.children.size(); ++i) {
      const std::optional<int64_t> value = graph_.as_int(node.children[i]);
      is_valid = value.has_value() && *value >= 0;
      if (is_valid) values.push_back(*value);
    }
    if (is_valid) return values;
    return refuse("{}: expected sizes of at least 0, found {}", where, graph_.describe(id, 60));
  }

  Status read_places(PickleId dict) {
    if (graph_.node(dict).kind != PickleKind::kDict) {
      return refuse("storage_data: expected a dict, found {}", graph_.describe(dict, 60));
    }
    const std::span<const PickleId> pairs = graph_.pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      MEG_ASSIGN_OR_RETURN(Key key, read_key(pairs[i]));
      const std::string where = fmt::format("storage_data: {}", text::printable(key.first, 200));
      MEG_ASSIGN_OR_RETURN(const DistBlob blob, read_place(pairs[i + 1], where));
      if (!places_.emplace(std::move(key), blob).second) {
        return refuse("{}: expected one place per chunk, found two", where);
      }
    }
    return {};
  }

  Result<Key> read_key(PickleId id) const {
    MEG_ASSIGN_OR_RETURN(const PickleId fqn, attribute(id, "fqn", "storage_data"));
    const std::optional<std::string_view> name = graph_.as_string(fqn);
    if (!name.has_value()) {
      return refuse("storage_data: expected a name, found {}", graph_.describe(fqn, 60));
    }
    Key key(std::string(*name), {});
    const std::optional<PickleId> offset = graph_.attribute(id, "offset");
    if (offset.has_value() && graph_.node(*offset).kind != PickleKind::kNone) {
      MEG_ASSIGN_OR_RETURN(key.second, sizes(*offset, text::printable(*name, 200)));
    }
    return key;
  }

  Result<DistBlob> read_place(PickleId id, const std::string& where) {
    MEG_ASSIGN_OR_RETURN(const PickleId path, attribute(id, "relative_path", where));
    MEG_ASSIGN_OR_RETURN(const PickleId offset, attribute(id, "offset", where));
    MEG_ASSIGN_OR_RETURN(const PickleId length, attribute(id, "length", where));
    const std::optional<std::string_view> file = graph_.as_string(path);
    if (!file.has_value() || !is_inside_path(*file)) {
      return refuse("{}: expected a file below the folder, found {}", where,
                    file.has_value() ? text::printable(*file, 200) : graph_.describe(path, 60));
    }
    const int64_t first = graph_.as_int(offset).value_or(-1);
    const int64_t bytes = graph_.as_int(length).value_or(-1);
    // Check that offset + length cannot overflow anywhere later.
    if (first < 0 || bytes < 0 || bytes > INT64_MAX - first) {
      return refuse("{}: expected an offset and a length, found {} and {}", where,
                    graph_.describe(offset, 60), graph_.describe(length, 60));
    }
    // Compressed, for one: bytes would be read as something else.
    const std::optional<PickleId> transforms = graph_.attribute(id, "transform_descriptors");
    if (transforms.has_value() && !graph_.node(*transforms).children.empty()) {
      return make_error(StatusCode::kUnsupported,
                        "{}: {}: transformed items ({}) are not supported yet", name_, where,
                        graph_.describe(*transforms, 60));
    }
    const auto [known, is_new] =
        file_of_.emplace(std::string(*file), static_cast<int>(found_->files.size()));
    if (is_new) found_->files.emplace_back(*file);
    return DistBlob{known->second, static_cast<uint64_t>(first), static_cast<uint64_t>(bytes)};
  }

  Status read_items(PickleId dict) {
    if (graph_.node(dict).kind != PickleKind::kDict) {
      return refuse("state_dict_metadata: expected a dict, found {}", graph_.describe(dict, 60));
    }
    const std::span<const PickleId> pairs = graph_.pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> name = graph_.as_string(pairs[i]);
      if (!name.has_value()) {
        return refuse("state_dict_metadata: expected names as keys, found {}",
                      graph_.describe(pairs[i], 60));
      }
      const std::string where = text::printable(*name, 200);
      if (is_of_class(pairs[i + 1], "BytesStorageMetadata")) {
        MEG_ASSIGN_OR_RETURN(const DistBlob blob, take_place({std::string(*name), {}}, where));
        found_->objects.push_back({std::string(*name), blob});
      } else if (is_of_class(pairs[i + 1], "TensorStorageMetadata")) {
        MEG_ASSIGN_OR_RETURN(DistTensor tensor, read_tensor(pairs[i + 1], where));
        tensor.name = *name;
        MEG_RETURN_IF_ERROR(read_chunks(pairs[i + 1], where, &tensor));
        found_->tensors.push_back(std::move(tensor));
      } else {
        return refuse("{}: expected a tensor's or an object's description, found {}", where,
                      graph_.describe(pairs[i + 1], 60));
      }
    }
    return {};
  }

  /// The place of an item, which no other has.
  Result<DistBlob> take_place(const Key& key, const std::string& where) {
    const auto place = places_.find(key);
    if (place == places_.end()) {
      return refuse("{}: at {}: expected a place in storage_data, found none", where,
                    shape_text(key.second));
    }
    const DistBlob blob = place->second;
    places_.erase(place);
    return blob;
  }

  Result<DistTensor> read_tensor(PickleId id, const std::string& where) const {
    DistTensor tensor;
    MEG_ASSIGN_OR_RETURN(const PickleId properties, attribute(id, "properties", where));
    MEG_ASSIGN_OR_RETURN(tensor.dtype, read_dtype(properties, where));
    MEG_ASSIGN_OR_RETURN(const PickleId size, attribute(id, "size", where));
    MEG_ASSIGN_OR_RETURN(tensor.shape, sizes(size, where));
    return tensor;
  }

  /// TensorProperties keeps (dtype, layout, requires_grad, memory format, pin_memory).
  Result<DType> read_dtype(PickleId properties, const std::string& where) const {
    const bool has_state = graph_.node(properties).kind == PickleKind::kCall &&
                           graph_.call(properties).states.size() == 1;
    const PickleNode& state =
        graph_.node(has_state ? graph_.call(properties).states[0] : properties);
    if (state.kind != PickleKind::kTuple || state.children.size() < 2) {
      return refuse("{}: expected TensorProperties, found {}", where,
                    graph_.describe(properties, 120));
    }
    // Read as text: torch pickles a layout as a call of a function with its name.
    const std::string layout = graph_.describe(state.children[1], 60);
    if (layout.find("torch.strided") == std::string::npos) {
      return make_error(StatusCode::kUnsupported, "{}: {}: tensors of layout {} are not supported",
                        name_, where, layout);
    }
    const PickleNode& type = graph_.node(state.children[0]);
    const bool is_type = type.kind == PickleKind::kGlobal && type.text == "torch";
    const std::optional<DType> dtype = is_type ? dtype_from_name(type.name) : std::nullopt;
    if (dtype.has_value()) return *dtype;
    return make_error(StatusCode::kUnsupported, "{}: {}: tensors of {} are not supported", name_,
                      where, graph_.describe(state.children[0], 60));
  }

  Status read_chunks(PickleId id, const std::string& where, DistTensor* tensor) {
    MEG_ASSIGN_OR_RETURN(const PickleId list, attribute(id, "chunks", where));
    if (graph_.node(list).kind != PickleKind::kList) {
      return refuse("{}: expected a list of chunks, found {}", where, graph_.describe(list, 60));
    }
    for (const PickleId entry : graph_.node(list).children) {
      DistChunk chunk;
      MEG_ASSIGN_OR_RETURN(const PickleId offsets, attribute(entry, "offsets", where));
      MEG_ASSIGN_OR_RETURN(const PickleId extents, attribute(entry, "sizes", where));
      MEG_ASSIGN_OR_RETURN(chunk.offsets, sizes(offsets, where));
      MEG_ASSIGN_OR_RETURN(chunk.sizes, sizes(extents, where));
      MEG_ASSIGN_OR_RETURN(chunk.blob, take_place({tensor->name, chunk.offsets}, where));
      tensor->chunks.push_back(std::move(chunk));
    }
    // A rank's own part has some chunks of a tensor only.
    const Status checked =
        coverage_ == DistCoverage::kWhole ? check_chunks(*tensor) : check_boxes(*tensor);
    return checked.with_prefix(where).with_prefix(name_);
  }

  const PickleGraph& graph_;
  const std::string& name_;
  DistCoverage coverage_;
  DistMetadata* found_ = nullptr;
  std::map<Key, DistBlob> places_;
  std::map<std::string, int> file_of_;
};

}  // namespace

Result<DistMetadata> read_dist_metadata(std::span<const std::byte> bytes, const std::string& name,
                                        PickleBudget* budget, DistCoverage coverage) {
  PickleGraph graph;
  MEG_ASSIGN_OR_RETURN(const PickleStream stream,
                       read_pickle(bytes, name, &graph, budget->values()));
  budget->take_values(graph.size());
  DistMetadata found;
  MEG_RETURN_IF_ERROR(MetadataReader(graph, name, coverage).read(stream.root, &found));
  return found;
}

}  // namespace meg::checkpoint
