#include "python/bindings/checkpoint.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"
#include "python/bindings/errors.h"
#include "python/bindings/fields.h"
#include "python/bindings/interruption.h"

namespace meg::python {
namespace {

namespace nb = nanobind;
using checkpoint::LogicalParameter;
using checkpoint::LogicalTensor;
using checkpoint::MegatronCheckpoint;
using checkpoint::PickleGraph;
using checkpoint::PickleId;
using checkpoint::PickleKind;

/// Bytes for which one more thread is worth starting.
constexpr int64_t kBytesOfThread = int64_t{4} << 20;

/// Makes Python's values of a pickle's: plain ones as they are, classes and objects as their text,
/// so that nothing is imported or called.
class ValueReader {
 public:
  /// A file of `file_bytes` may give values of some times its size: it can share one long list in
  /// many, each of which becomes a copy.
  ValueReader(const PickleGraph& graph, uint64_t file_bytes)
      : graph_(graph), left_((uint64_t{1} << 20) + 32 * file_bytes) {}

  nb::object value(PickleId id, int depth = 0) {
    const checkpoint::PickleNode& node = graph_.node(id);
    const uint64_t bytes = 64 + node.text.size();
    if (bytes > left_ || depth > kMostNesting) {
      check(make_error(StatusCode::kResourceExhausted,
                       "args: expected values in proportion to their file, found more"));
    }
    left_ -= bytes;
    switch (node.kind) {
      case PickleKind::kNone:
        return nb::none();
      case PickleKind::kBool:
        return nb::bool_(node.boolean);
      case PickleKind::kInt:
        return nb::int_(node.integer);
      case PickleKind::kBigInt:
        return nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
            .attr("from_bytes")(nb::bytes(node.text.data(), node.text.size()), "little",
                                nb::arg("signed") = true);
      case PickleKind::kFloat:
        return nb::float_(node.real);
      case PickleKind::kString:
        return text(node.text);
      case PickleKind::kBytes:
      case PickleKind::kByteArray:
        return nb::bytes(node.text.data(), node.text.size());
      case PickleKind::kTuple:
        return nb::tuple(list(node, depth));
      case PickleKind::kList:
        return list(node, depth);
      case PickleKind::kSet:
      case PickleKind::kFrozenSet:
        return nb::steal(PySet_New(list(node, depth).ptr()));
      default:
        if (is_dict(id)) return dict(graph_.pairs(id), depth);
        if (const auto data = graph_.as_bytes(id)) return nb::bytes(data->data(), data->size());
        return description(id);
    }
  }

  nb::dict dict(std::span<const PickleId> pairs, int depth = 0) {
    nb::dict values;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      nb::object key = value(pairs[i], depth + 1);
      if (PyObject_Hash(key.ptr()) == -1) {
        PyErr_Clear();
        key = description(pairs[i]);
      }
      values[key] = value(pairs[i + 1], depth + 1);
    }
    return values;
  }

 private:
  static constexpr int kMostNesting = 100;

  bool is_dict(PickleId id) const {
    return graph_.node(id).kind == PickleKind::kDict || !graph_.pairs(id).empty() ||
           graph_.class_name(id) == "collections.OrderedDict";
  }

  nb::list list(const checkpoint::PickleNode& node, int depth) {
    nb::list values;
    for (const PickleId child : node.children) values.append(value(child, depth + 1));
    return values;
  }

  nb::object description(PickleId id) { return text(graph_.describe(id)); }

  static nb::object text(const std::string& text) {
    nb::object made = nb::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
    if (!made.is_valid()) throw nb::python_error();
    return made;
  }

  const PickleGraph& graph_;
  uint64_t left_;
};

/// An open checkpoint of Python's. Reads share it, so that one thread may close what another reads.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& path, std::optional<int64_t> iteration, const nb::dict& args,
                   bool ignore_optimizer) {
    checkpoint::OpenCheckpointOptions options;
    options.ignore_optimizer = ignore_optimizer;
    if (args.size() > 0) options.fallback = fields_of(args);
    run_interruptibly([&](const std::atomic<bool>&) -> Status {
      MEG_ASSIGN_OR_RETURN(const auto folder, checkpoint::find_checkpoint(path, iteration));
      MEG_ASSIGN_OR_RETURN(auto opened, MegatronCheckpoint::open(folder, options));
      open_ = std::make_shared<const MegatronCheckpoint>(std::move(opened));
      return {};
    });
  }

  void close() { open_.reset(); }

  bool closed() const { return open_ == nullptr; }

  const MegatronCheckpoint& get() const { return *shared(); }

  nb::dict args() const {
    const std::optional<PickleId> args = get().args(0);
    if (!args.has_value()) return {};
    const checkpoint::TorchFile& file = *get().files()[0].file;
    const std::optional<PickleId> attributes = file.graph().attributes(*args);
    return ValueReader(file.graph(), file.size())
        .dict(file.graph().pairs(attributes.value_or(*args)));
  }

  /// (name, shape, [(kind, dtype, bytes of an element), ...]) of every parameter.
  nb::list parameters() const {
    nb::list all;
    for (const LogicalParameter& parameter : get().parameters()) {
      nb::list tensors;
      for (const LogicalTensor& tensor : parameter.tensors) {
        tensors.append(nb::make_tuple(tensor.kind, std::string(dtype_name(tensor.dtype)),
                                      dtype_size(tensor.dtype)));
      }
      all.append(
          nb::make_tuple(parameter.name, nb::tuple(nb::cast(parameter.shape)), std::move(tensors)));
    }
    return all;
  }

  /// The settings of each kind of param_groups, without its parameters.
  nb::list param_groups() const {
    nb::list groups;
    using Kind = checkpoint::ParamGroupKind;
    for (const Kind kind : {Kind::kDecay, Kind::kDecoupled, Kind::kNoDecay}) {
      const checkpoint::ParamGroup* group = get().optimizer().group(kind);
      if (group == nullptr) continue;
      const auto& file = *get().files()[static_cast<size_t>(group->file)].file;
      std::vector<PickleId> settings;
      const std::span<const PickleId> pairs = file.graph().pairs(group->node);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        if (file.graph().as_string(pairs[i]) == "params") continue;
        settings.insert(settings.end(), {pairs[i], pairs[i + 1]});
      }
      nb::dict values = ValueReader(file.graph(), file.size()).dict(settings);
      values["kind"] = std::string(param_group_text(kind));
      groups.append(values);
    }
    return groups;
  }

  /// The step that a parameter's state has; None where steps are in the groups.
  std::optional<int64_t> step() const {
    const checkpoint::Opaque* step = checkpoint::step_of_parameters(get());
    if (step == nullptr) return std::nullopt;
    return value_of(checkpoint::parameter_step(*step));
  }

  using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  /// Fills arrays. wanted: a parameter's index, that of its tensor, and the first element, for each
  /// array of `into`.
  void read(const std::vector<std::vector<int64_t>>& wanted, const std::vector<Bytes>& into) const {
    const std::shared_ptr<const MegatronCheckpoint> open = shared();
    std::vector<checkpoint::TensorTransfer> transfers;
    std::vector<std::unique_ptr<checkpoint::TensorSink>> sinks;
    std::vector<std::shared_ptr<const checkpoint::TensorSource>> sources;
    int64_t bytes = 0;
    for (size_t i = 0; i < into.size(); ++i) {
      const LogicalParameter& parameter = item(open->parameters(), wanted.at(i).at(0));
      const LogicalTensor& tensor = item(std::span(parameter.tensors), wanted[i].at(1));
      const int64_t first = wanted[i].at(2);
      const int64_t count = std::ssize(into_span(into[i])) / dtype_size(tensor.dtype);
      const checkpoint::Box whole = checkpoint::Box::whole(parameter.axes.sizes);
      if (first < 0 || first + count > whole.elements()) throw nb::index_error("elements");
      if (count == 0) continue;
      bytes += count * dtype_size(tensor.dtype);
      for (const checkpoint::Piece& piece : tensor.pieces) sources.push_back(piece.source);
      transfers.push_back({.name = parameter.name,
                           .axes = parameter.axes.sizes,
                           .source_extent = parameter.axes.sizes[0],
                           .target_dtype = tensor.dtype,
                           .sources = tensor.pieces,
                           .targets = {{.sink = static_cast<int>(sinks.size()),
                                        .box = whole,
                                        .range = {{.first = first, .count = count}}}}});
      sinks.push_back(checkpoint::memory_sink(into_span(into[i])));
    }
    if (sinks.empty()) return;
    // A storage that many tensors share is compared with its CRC-32 where most of it is read; for
    // each of them it would be read again.
    uint64_t recorded = 0;
    for (const auto& crc : checkpoint::recorded_crcs_of(sources)) recorded += crc.extent.bytes;
    checkpoint::TransferOptions options;
    options.check_crcs = recorded <= static_cast<uint64_t>(bytes + bytes / 4);
    options.workers =
        static_cast<int>(std::clamp<int64_t>(bytes / kBytesOfThread, 1, available_processors()));
    run_interruptibly([&](const std::atomic<bool>& stop) {
      options.progress = [&stop](const Progress&) { return !stop.load(); };
      return checkpoint::run_transfers(transfers, sinks, options);
    });
  }

 private:
  std::shared_ptr<const MegatronCheckpoint> shared() const {
    if (open_ == nullptr) {
      refuse("checkpoint: expected an open one, found it closed");
    }
    return open_;
  }

  static std::span<std::byte> into_span(const Bytes& array) {
    return {reinterpret_cast<std::byte*>(array.data()), array.size()};
  }

  template <class T>
  static const T& item(std::span<const T> items, int64_t index) {
    if (index < 0 || index >= std::ssize(items)) throw nb::index_error("index");
    return items[static_cast<size_t>(index)];
  }

  std::shared_ptr<const MegatronCheckpoint> open_;
};

}  // namespace

void bind_checkpoint(nb::module_& module) {
  using Reader = CheckpointReader;
  nb::class_<Reader>(module, "CheckpointReader", "What libmeg.Checkpoint reads from.")
      .def(nb::init<const std::string&, std::optional<int64_t>, const nb::dict&, bool>(),
           nb::arg("path"), nb::arg("iteration").none(), nb::arg("args"),
           nb::arg("ignore_optimizer"))
      .def("close", &Reader::close)
      .def_prop_ro("closed", &Reader::closed)
      .def("args", &Reader::args)
      .def("parameters", &Reader::parameters)
      .def("param_groups", &Reader::param_groups)
      .def("step", &Reader::step)
      .def("read", &Reader::read, nb::arg("wanted"), nb::arg("into").noconvert())
      .def("folder", [](const Reader& self) { return self.get().folder().folder; })
      .def("format",
           [](const Reader& self) {
             return std::string(checkpoint_format_text(self.get().folder().format));
           })
      .def("iteration", [](const Reader& self) { return self.get().iteration(); })
      .def("checkpoint_version", [](const Reader& self) { return self.get().checkpoint_version(); })
      .def("notes",
           [](const Reader& self) {
             const auto notes = self.get().notes();
             return std::vector<std::string>(notes.begin(), notes.end());
           })
      .def("parallel_sizes",
           [](const Reader& self) {
             const MegatronCheckpoint& open = self.get();
             return std::vector<int64_t>{
                 open.tensor_model_parallel_size(), open.pipeline_model_parallel_size(),
                 open.virtual_pipeline_model_parallel_size(), open.expert_model_parallel_size()};
           })
      .def("optimizer_form",
           [](const Reader& self) {
             return std::string(optimizer_form_text(self.get().optimizer().form));
           })
      .def("optimizer_is_distributed",
           [](const Reader& self) { return self.get().optimizer().is_distributed; });
}

}  // namespace meg::python
