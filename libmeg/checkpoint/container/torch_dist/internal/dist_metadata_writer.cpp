#include <map>
#include <string>
#include <utility>

#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"

// Writes what read_dist_metadata() reads, with the values that torch's own planner gives: whoever
// unpickles it needs every class to be where the pickle says, and all fields that loaders of
// different releases look at.

namespace meg::checkpoint {
namespace {

constexpr const char* kWrittenModule = "torch.distributed.checkpoint.metadata";
constexpr const char* kFilesModule = "torch.distributed.checkpoint.filesystem";
/// The version of the layout, which torch has not changed since it began to write one.
constexpr const char* kFormatVersion = "1.0.0";

class MetadataWriter {
 public:
  explicit MetadataWriter(const DistMetadata& metadata) : metadata_(metadata) {}

  Result<std::vector<std::byte>> write() {
    std::vector<PickleId> items, names, places;
    for (const DistTensor& tensor : metadata_.tensors) {
      const PickleId name = text(tensor.name);
      items.insert(items.end(), {name, add_tensor(tensor)});
      names.insert(names.end(), {name, graph_.add_tuple({name})});
      for (const DistChunk& chunk : tensor.chunks) {
        places.insert(places.end(), {add_index(name, &chunk), add_place(chunk.blob)});
      }
    }
    for (const DistObject& object : metadata_.objects) {
      const PickleId name = text(object.name);
      items.insert(items.end(), {name, add_object("BytesStorageMetadata", {})});
      names.insert(names.end(), {name, graph_.add_tuple({name})});
      places.insert(places.end(), {add_index(name, nullptr), add_place(object.blob)});
    }
    const PickleId root =
        add_object("Metadata", {{"state_dict_metadata", graph_.add_dict(std::move(items))},
                                {"planner_data", graph_.add_dict(std::move(names))},
                                {"storage_data", graph_.add_dict(std::move(places))},
                                {"storage_meta", graph_.add_none()},
                                {"version", text(kFormatVersion)}});
    return write_pickle(graph_, root);
  }

 private:
  using Fields = std::vector<std::pair<const char*, PickleId>>;

  // A text that occurs several times is one node, as Python's pickler remembers it: the file has it
  // once.
  PickleId text(const std::string& text) {
    const auto [known, is_new] = texts_.try_emplace(text, 0);
    if (is_new) known->second = graph_.add_string(text);
    return known->second;
  }

  PickleId global(const std::string& module, const std::string& name) {
    const auto [known, is_new] = globals_.try_emplace({module, name}, 0);
    if (is_new) known->second = graph_.add_global(module, name);
    return known->second;
  }

  PickleId add_object(const char* class_name, const Fields& fields,
                      const char* module = kWrittenModule) {
    const PickleId made =
        graph_.add_call(PickleCallForm::kNewObj, global(module, class_name), graph_.add_tuple({}));
    if (fields.empty()) return made;
    std::vector<PickleId> pairs;
    for (const auto& [name, value] : fields) pairs.insert(pairs.end(), {text(name), value});
    const PickleId state = graph_.add_dict(std::move(pairs));
    graph_.mutable_call(made).states.push_back(state);
    return made;
  }

  PickleId add_call(PickleId function, std::vector<PickleId> arguments) {
    return graph_.add_call(PickleCallForm::kReduce, function,
                           graph_.add_tuple(std::move(arguments)));
  }

  PickleId add_sizes(const std::vector<int64_t>& sizes) {
    std::vector<PickleId> numbers;
    for (const int64_t size : sizes) numbers.push_back(graph_.add_int(size));
    return add_call(global("torch", "Size"), {graph_.add_tuple(std::move(numbers))});
  }

  /// Values that torch pickles in ways of its own: layout by a function, memory format as an enum.
  PickleId add_properties(DType dtype) {
    const PickleId made = add_object("TensorProperties", {});
    const PickleId layout =
        add_call(global("torch.serialization", "_get_layout"), {text("torch.strided")});
    const PickleId memory_format =
        add_call(global(kWrittenModule, "_MEM_FORMAT_ENCODING"), {graph_.add_int(0)});
    const PickleId state =
        graph_.add_tuple({global("torch", std::string(dtype_name(dtype))), layout,
                          graph_.add_bool(false), memory_format, graph_.add_bool(false)});
    graph_.mutable_call(made).states.push_back(state);
    return made;
  }

  PickleId add_tensor(const DistTensor& tensor) {
    std::vector<PickleId> chunks;
    for (const DistChunk& chunk : tensor.chunks) {
      chunks.push_back(add_object("ChunkStorageMetadata", {{"offsets", add_sizes(chunk.offsets)},
                                                           {"sizes", add_sizes(chunk.sizes)}}));
    }
    return add_object("TensorStorageMetadata", {{"properties", add_properties(tensor.dtype)},
                                                {"size", add_sizes(tensor.shape)},
                                                {"chunks", graph_.add_list(std::move(chunks))}});
  }

  /// chunk: nullptr for objects.
  PickleId add_index(PickleId name, const DistChunk* chunk) {
    Fields fields = {{"fqn", name}, {"index", graph_.add_none()}};
    if (chunk != nullptr) fields.emplace_back("offset", add_sizes(chunk->offsets));
    return add_object("MetadataIndex", fields);
  }

  PickleId add_place(const DistBlob& blob) {
    const auto offset = static_cast<int64_t>(blob.offset);
    const auto length = static_cast<int64_t>(blob.length);
    return add_object("_StorageInfo",
                      {{"relative_path", text(metadata_.files[static_cast<size_t>(blob.file)])},
                       {"offset", graph_.add_int(offset)},
                       {"length", graph_.add_int(length)}},
                      kFilesModule);
  }

  const DistMetadata& metadata_;
  PickleGraph graph_;
  std::map<std::string, PickleId> texts_;
  std::map<std::pair<std::string, std::string>, PickleId> globals_;
};

}  // namespace

Result<std::vector<std::byte>> write_dist_metadata(const DistMetadata& metadata) {
  return MetadataWriter(metadata).write();
}

}  // namespace meg::checkpoint
