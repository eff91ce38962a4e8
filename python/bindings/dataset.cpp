#include "python/bindings/dataset.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "python/bindings/errors.h"
#include "python/bindings/numpy_array.h"

namespace meg::python {
namespace {

namespace nb = nanobind;
using Path = std::filesystem::path;
using dataset::IndexedDataset;

nb::dlpack::dtype numpy_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const bool real = dtype == DType::kFloat32 || dtype == DType::kFloat64;
  const bool unsigned_integer = dtype == DType::kUint8 || dtype == DType::kUint16;
  const Code code = real ? Code::Float : unsigned_integer ? Code::UInt : Code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * dtype_size(dtype)), 1};
}

/// Python's IndexedDataset. Arrays share the mapping with it, so that they stay what they are when
/// it is closed.
class Dataset {
 public:
  Dataset(const Path& path_prefix, std::optional<bool> multimodal,
          const Path& object_storage_cache_path)
      : path_prefix_(path_prefix.native()),
        multimodal_(multimodal),
        object_storage_cache_path_(object_storage_cache_path.native()) {
    const nb::gil_scoped_release release;
    auto opened = IndexedDataset::open(
        path_prefix_, {.multimodal = multimodal, .idx_cache = object_storage_cache_path_});
    // Raised only after `release` has taken the lock again.
    data_ = std::make_shared<const IndexedDataset>(value_of(std::move(opened)));
  }

  nb::object arguments() const {
    (void)opened();
    return nb::make_tuple(path_prefix_, multimodal_, object_storage_cache_path_);
  }

  void close() {
    // Arrays that somebody holds keep the mapping.
    for (nb::object* array : {&items_, &lengths_, &documents_, &modes_}) array->reset();
    data_.reset();
  }

  bool closed() const { return data_ == nullptr; }

  size_t size() const { return static_cast<size_t>(opened().sequence_count()); }

  const std::string& path_prefix() const { return path_prefix_; }

  bool multimodal() const { return opened().multimodal(); }

  nb::object dtype() const {
    const std::string_view name = dtype_name(opened().dtype());
    return nb::module_::import_("numpy").attr("dtype")(nb::str(name.data(), name.size()));
  }

  nb::object lengths() { return kept(lengths_, opened().sequence_lengths(), DType::kInt32); }

  nb::object documents() { return kept(documents_, opened().document_indices(), DType::kInt64); }

  nb::object modes() {
    if (!opened().multimodal()) return nb::none();
    return kept(modes_, opened().sequence_modes(), DType::kInt8);
  }

  nb::object item(nb::handle index) {
    if (PySlice_Check(index.ptr()) != 0) return slice(index);
    const int64_t sequence = number_of(index);
    return with_mode(sequence, whole(sequence));
  }

  nb::object get(nb::handle index, int64_t offset, std::optional<int64_t> length) {
    const int64_t sequence = number_of(index);
    const int64_t whole_length = value_of(opened().sequence_length(sequence));
    // The library refuses negative numbers, and more items than there are.
    return with_mode(sequence, part(sequence, offset, length.value_or(whole_length - offset)));
  }

 private:
  const IndexedDataset& opened() const {
    if (data_ == nullptr) refuse("{}: the dataset is closed", path_prefix_);
    return *data_;
  }

  int64_t number_of(nb::handle index) const { return index_of(index, opened().sequence_count()); }

  nb::object with_mode(int64_t sequence, nb::object items) {
    if (!data_->multimodal()) return items;
    return nb::make_tuple(std::move(items), modes()[sequence]);
  }

  nb::object whole(int64_t sequence) {
    if (data_->bin().object() != nullptr) {
      return part(sequence, 0, value_of(data_->sequence_length(sequence)));
    }
    return in_place(value_of(data_->sequence(sequence)));
  }

  nb::object part(int64_t sequence, int64_t offset, int64_t length) {
    const std::shared_ptr<const IndexedDataset> data = data_;
    auto copy = std::make_shared<std::vector<std::byte>>();
    Result<std::span<const std::byte>> items = std::span<const std::byte>();
    if (data->bin().object() == nullptr) {
      return in_place(value_of(data->sequence(sequence, offset, length, *copy)));
    }
    {
      const nb::gil_scoped_release release;
      items = data->sequence(sequence, offset, length, *copy);
    }
    const std::span<const std::byte> bytes = value_of(std::move(items));
    return array_on(bytes.data(), {static_cast<size_t>(length)}, numpy_dtype(data->dtype()), copy,
                    Writable::kNo);
  }

  /// A slice of one array over all of .bin, which numpy makes faster than an array of its own.
  nb::object in_place(std::span<const std::byte> bytes) {
    const std::span<const std::byte> bin = data_->bin().mapped();
    const auto item_size = static_cast<size_t>(data_->item_size());
    if (!items_.is_valid()) {
      items_ = array_on(bin.data(), {bin.size() / item_size}, numpy_dtype(data_->dtype()), data_,
                        Writable::kNo);
    }
    const size_t begin =
        bytes.empty() ? 0 : static_cast<size_t>(bytes.data() - bin.data()) / item_size;
    const auto range = nb::steal(PySlice_New(
        nb::int_(begin).ptr(), nb::int_(begin + bytes.size() / item_size).ptr(), nullptr));
    PyObject* const array = PyObject_GetItem(items_.ptr(), range.ptr());
    if (array == nullptr) throw nb::python_error();
    return nb::steal(array);
  }

  nb::object slice(nb::handle index) {
    Py_ssize_t begin = 0;
    Py_ssize_t end = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(index.ptr(), &begin, &end, &step) != 0) throw nb::python_error();
    const Py_ssize_t count =
        PySlice_AdjustIndices(static_cast<Py_ssize_t>(size()), &begin, &end, step);
    if (step != 1) refuse("{}: slices must be contiguous, found a step of {}", path_prefix_, step);
    nb::list sequences;
    for (Py_ssize_t i = 0; i < count; ++i) {
      sequences.append(whole(begin + i));
      // Another thread may have closed it, where this one waits for an object of a store.
      (void)opened();
    }
    if (!multimodal()) return sequences;
    return nb::make_tuple(std::move(sequences), modes()[index]);
  }

  template <class T>
  nb::object kept(nb::object& array, dataset::LittleEndianArray<T> values, DType dtype) {
    if (array.is_valid()) return array;
    const auto count = static_cast<size_t>(values.size());
    if (data_->format() == dataset::IndexFormat::kMmididx) {
      array = array_on(values.bytes().data(), {count}, numpy_dtype(dtype), data_, Writable::kNo);
    } else {
      // TNTIDX has them in another unit.
      auto copy = std::make_shared<std::vector<T>>(count);
      values.copy(0, *copy);
      array = array_on(copy->data(), {count}, numpy_dtype(dtype), copy, Writable::kNo);
    }
    return array;
  }

  const std::string path_prefix_;
  const std::optional<bool> multimodal_;
  const std::string object_storage_cache_path_;
  std::shared_ptr<const IndexedDataset> data_;  ///< Null: closed.
  nb::object items_;                            ///< All of .bin.
  nb::object lengths_;
  nb::object documents_;
  nb::object modes_;
};

bool dataset_exists(const Path& path_prefix) {
  const nb::gil_scoped_release release;
  const std::string prefix = dataset::dataset_prefix(path_prefix.native());
  for (const char* ending : {".idx", ".bin"}) {
    const auto file = dataset::BinFile::open(prefix + ending, io::MappedFile::Access::kNormal);
    if (file.has_value()) continue;
    if (file.error().code() == StatusCode::kNotFound) return false;
    check(file.error());
  }
  return true;
}

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// visit(T()) with the C++ type of an array's elements; false for types that tokens cannot have.
template <class Visit>
bool visit_type(nb::dlpack::dtype dtype, const Visit& visit) {
  if (dtype == nb::dtype<uint8_t>()) return visit(uint8_t()), true;
  if (dtype == nb::dtype<int8_t>()) return visit(int8_t()), true;
  if (dtype == nb::dtype<uint16_t>()) return visit(uint16_t()), true;
  if (dtype == nb::dtype<int16_t>()) return visit(int16_t()), true;
  if (dtype == nb::dtype<uint32_t>()) return visit(uint32_t()), true;
  if (dtype == nb::dtype<int32_t>()) return visit(int32_t()), true;
  if (dtype == nb::dtype<uint64_t>()) return visit(uint64_t()), true;
  if (dtype == nb::dtype<int64_t>()) return visit(int64_t()), true;
  if (dtype == nb::dtype<float>()) return visit(float()), true;
  if (dtype == nb::dtype<double>()) return visit(double()), true;
  return false;
}

/// Whether `value` is a T too; a real number need only have its range.
template <class T, class Value>
bool fits(Value value) {
  if constexpr (std::is_floating_point_v<T> && std::is_floating_point_v<Value>) {
    return !std::isfinite(value) || std::isfinite(static_cast<T>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr int64_t kExact = int64_t{1} << std::numeric_limits<T>::digits;
    return std::cmp_less_equal(value, kExact) && std::cmp_greater_equal(value, -kExact);
  } else {
    return std::in_range<T>(value);
  }
}

std::string dtype_text(nb::dlpack::dtype dtype) {
  std::string text = "another type";
  visit_type(dtype, [&text](auto type) { text = dtype_name(dtype_of<decltype(type)>()); });
  if (dtype == nb::dtype<bool>()) text = "bool";
  return text;
}

/// The values of a numpy array, of anything with DLPack or the buffer protocol, or of a list.
Array array_of(nb::handle values, const char* what) {
  Array array;
  if (!nb::try_cast(values, array) &&
      !nb::try_cast(nb::module_::import_("numpy").attr("asarray")(values), array)) {
    refuse("{}: expected an array of numbers in this machine's byte order, found {}", what,
           nb::str(nb::type_name(values.type())).c_str());
  }
  if (array.ndim() != 1) {
    refuse("{}: expected one dimension, found {}", what, array.ndim());
  }
  return array;
}

/// The values as T. None is changed: what does not fit is refused.
template <class T>
std::vector<T> values_as(const Array& array, const char* what) {
  std::vector<T> converted(array.size());
  const auto convert = [&](auto type) {
    using Value = decltype(type);
    if constexpr (std::is_floating_point_v<Value> && !std::is_floating_point_v<T>) {
      // numpy makes an empty list a list of real numbers.
      if (array.size() == 0) return;
      refuse("{}: expected integers that fit in {}, found {}", what, dtype_name(dtype_of<T>()),
             dtype_name(dtype_of<Value>()));
    } else {
      const auto* const values = static_cast<const Value*>(array.data());
      for (size_t i = 0; i < converted.size(); ++i) {
        if (!fits<T>(values[i])) {
          refuse("{}: item {}: {} does not fit in {}", what, i, values[i],
                 dtype_name(dtype_of<T>()));
        }
        converted[i] = static_cast<T>(values[i]);
      }
    }
  };
  if (!visit_type(array.dtype(), convert)) {
    refuse("{}: expected items of {}, found {}", what, dtype_name(dtype_of<T>()),
           dtype_text(array.dtype()));
  }
  return converted;
}

/// Python's IndexedDatasetBuilder. Whatever it is given is checked before the first byte is
/// written.
class Builder {
 public:
  Builder(const Path& bin_path, nb::handle dtype, bool multimodal)
      : path_prefix_(dataset::dataset_prefix(bin_path.native())) {
    const nb::object numpy_type = nb::module_::import_("numpy").attr("dtype")(dtype);
    const auto name = nb::cast<std::string>(numpy_type.attr("name"));
    const std::optional<DType> known = dtype_from_name(name);
    if (!known.has_value()) refuse("{}: {} is no dtype of datasets", path_prefix_, name);
    dtype_ = *known;
    const nb::gil_scoped_release release;
    builder_ = value_of(dataset::IndexedDatasetBuilder::create(
        path_prefix_, {.dtype = dtype_, .multimodal = multimodal}));
  }

  void add_item(nb::handle tensor, int8_t mode) {
    const Array array = array_of(tensor, "tensor");
    const Items items = items_of(array);
    change([&](auto& builder) { return builder.add_item(items.bytes, mode); });
  }

  void add_document(nb::handle tensor, nb::handle lengths, nb::handle modes) {
    const Array array = array_of(tensor, "tensor");
    const Items items = items_of(array);
    const std::vector<int32_t> counts = values_as<int32_t>(array_of(lengths, "lengths"), "lengths");
    int64_t sum = 0;
    for (const int32_t count : counts) {
      if (count < 0) refuse("lengths: expected 0 or more, found {}", count);
      sum += count;
    }
    if (sum != static_cast<int64_t>(array.size())) {
      refuse("lengths: expected the {} items of the tensor in all, found {}", array.size(), sum);
    }
    std::vector<int8_t> kinds(counts.size());
    if (!modes.is_none()) kinds = values_as<int8_t>(array_of(modes, "modes"), "modes");
    if (kinds.size() != counts.size()) {
      refuse("modes: expected one for each of the {} lengths, found {}", counts.size(),
             kinds.size());
    }
    change([&](auto& builder) -> Status {
      size_t begin = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        const size_t bytes = static_cast<size_t>(counts[i] * dtype_size(dtype_));
        MEG_RETURN_IF_ERROR(builder.add_item(items.bytes.subspan(begin, bytes), kinds[i]));
        begin += bytes;
      }
      return builder.end_document();
    });
  }

  void end_document() {
    change([](auto& builder) { return builder.end_document(); });
  }

  void add_index(const Path& path_prefix) {
    change([&](auto& builder) { return builder.add_index(path_prefix.native()); });
  }

  void finalize(const std::optional<Path>& idx_path) {
    if (idx_path.has_value() && idx_path->native() != path_prefix_ + ".idx") {
      refuse("idx_path: expected {}.idx beside its .bin, found {}", path_prefix_,
             idx_path->native());
    }
    change([](auto& builder) { return builder.finish(); });
    builder_.reset();
  }

 private:
  struct Items {
    std::vector<std::byte> converted;
    std::span<const std::byte> bytes;
  };

  Items items_of(const Array& array) const {
    if (array.dtype() == numpy_dtype(dtype_)) {
      return {.converted = {},
              .bytes = {static_cast<const std::byte*>(array.data()), array.nbytes()}};
    }
    Items items;
    visit_type(numpy_dtype(dtype_), [&](auto type) {
      const auto values = values_as<decltype(type)>(array, "tensor");
      const auto bytes = std::as_bytes(std::span(values));
      items.converted.assign(bytes.begin(), bytes.end());
    });
    items.bytes = items.converted;
    return items;
  }

  /// Several threads may call one builder; after an error it is of no use any more.
  template <class Change>
  void change(const Change& work) {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    if (!builder_.has_value()) {
      refuse("{}: the builder was finalized or has failed", path_prefix_);
    }
    const Status status = work(*builder_);
    if (!status.ok()) builder_.reset();
    check(status);
  }

  const std::string path_prefix_;
  DType dtype_ = DType::kInt32;
  std::mutex mutex_;
  std::optional<dataset::IndexedDatasetBuilder> builder_;
};

void bind_indexed_dataset(nb::module_& module) {
  nb::class_<Dataset> bound(module, "IndexedDataset",
                            R"(A dataset of tokens, PREFIX.bin and PREFIX.idx, mapped read-only.

It has the methods of ``megatron.core.datasets.indexed_dataset.IndexedDataset``. ``dataset[i]`` is sequence ``i``
as a read-only numpy array of ``dataset.dtype`` and shape ``[length]``, in place: nothing is copied. ``dataset[a:b]``
is a list of them. A multimodal dataset gives ``(array, mode)`` and ``(list, modes)``. Arrays keep the mapping, also
after ``close()``, when every other call raises. Any number of threads and of forked processes may read one dataset;
pickled, it is opened again by its prefix.

Args:
    path_prefix: may end in ".bin" or ".idx"; or an address "s3://BUCKET/KEY", of which the items that are read are
        fetched, and copied into the arrays.
    multimodal: whether the .idx has a mode for every sequence; None: its size tells.
    object_storage_cache_path: the folder for the copy of an .idx at s3://; "": a temporary file.

Raises:
    NotFoundError, CorruptionError, UnsupportedError, IoError (libmeg.errors), with the file and the byte.)");
  bound
      .def(nb::init<const Path&, std::optional<bool>, const Path&>(), nb::arg("path_prefix"),
           nb::arg("multimodal") = nb::none(), nb::arg("object_storage_cache_path") = "")
      .def("__len__", &Dataset::size, "The number of sequences.")
      .def("__getitem__", &Dataset::item, nb::arg("idx"),
           nb::sig("def __getitem__(self, idx: int | slice, /) -> typing.Any"),
           R"(Sequence ``idx``, which may be negative, or the list of those of a contiguous slice.

Raises:
    IndexError: there is no such sequence. ValueError: the slice has a step, the dataset is closed, or the .idx
    names items outside the .bin. TypeError: idx is neither a number nor a slice.)")
      .def("get", &Dataset::get, nb::arg("idx"), nb::arg("offset") = 0,
           nb::arg("length") = nb::none(),
           nb::sig("def get(self, idx: int, offset: int = 0, length: int | None = None) -> "
                   "typing.Any"),
           R"(``length`` items of sequence ``idx`` from item ``offset`` on; None: all that follow.

Raises:
    IndexError: the sequence does not have them.)")
      .def_prop_ro("sequence_lengths", &Dataset::lengths,
                   nb::sig("def sequence_lengths(self) -> numpy.typing.NDArray[numpy.int32]"),
                   "The number of items of every sequence: int32, [sequences], read-only.")
      .def_prop_ro(
          "document_indices", &Dataset::documents,
          nb::sig("def document_indices(self) -> numpy.typing.NDArray[numpy.int64]"),
          "Document d is the sequences [x[d], x[d + 1]): int64, [documents + 1], read-only.")
      .def("get_document_indices", &Dataset::documents,
           nb::sig("def get_document_indices(self) -> numpy.typing.NDArray[numpy.int64]"),
           "``document_indices``.")
      .def_prop_ro(
          "sequence_modes", &Dataset::modes,
          nb::sig("def sequence_modes(self) -> numpy.typing.NDArray[numpy.int8] | None"),
          "The mode of every sequence: int8, [sequences]; None where the dataset has none.")
      .def_prop_ro("dtype", &Dataset::dtype, nb::sig("def dtype(self) -> numpy.dtype"),
                   "The type of the items.")
      .def_prop_ro("path_prefix", &Dataset::path_prefix, "The prefix as it was given.")
      .def_prop_ro("multimodal", &Dataset::multimodal, "Whether sequences have modes.")
      .def_prop_ro("closed", &Dataset::closed, "Whether close() was called.")
      .def("close", &Dataset::close,
           "Closes the dataset; its files are unmapped when the last array on them is gone.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> IndexedDataset"))
      .def("__exit__", [](Dataset& self, const nb::args&) { self.close(); })
      .def("__reduce__",
           [](const nb::object& self) {
             return nb::make_tuple(self.type(), nb::cast<Dataset&>(self).arguments());
           })
      .def("__repr__",
           [](const Dataset& self) {
             if (self.closed())
               return fmt::format("<IndexedDataset {}: closed>", self.path_prefix());
             return fmt::format("<IndexedDataset {}: {} sequences>", self.path_prefix(),
                                self.size());
           })
      .def_static("exists", &dataset_exists, nb::arg("path_prefix"),
                  "Whether there are both files, or both objects at s3://.");
}

void bind_builder(nb::module_& module) {
  nb::class_<Builder>(module, "IndexedDatasetBuilder", R"(Writes PREFIX.bin and PREFIX.idx.

It has the methods of ``megatron.core.datasets.indexed_dataset.IndexedDatasetBuilder`` and writes the same bytes. Both
files appear together in ``finalize()``; without it nothing is left behind. Items are numpy arrays, anything else with
DLPack or the buffer protocol, such as a torch tensor, or lists; of one dimension. Numbers are never changed: a
value that the dtype does not have raises ValueError, and nothing of the call is written.

Args:
    bin_path: the path of the .bin, or the prefix.
    dtype: of the items, such as numpy.uint16.
    multimodal: whether every sequence has a mode.

Raises:
    ValueError: a dtype that datasets do not have. OSError: the files cannot be written, or another process writes
    them.)")
      .def(
          "__init__",
          [](Builder* self, const Path& bin_path, const nb::object& dtype, bool multimodal) {
            const bool named = !dtype.is_none();
            new (self) Builder(bin_path, named ? dtype : nb::object(nb::str("int32")), multimodal);
          },
          nb::arg("bin_path"), nb::arg("dtype") = nb::none(), nb::arg("multimodal") = false,
          nb::sig("def __init__(self, bin_path: str | os.PathLike, dtype: typing.Any = None, "
                  "multimodal: bool = False) -> None"))
      .def("add_item", &Builder::add_item, nb::arg("tensor"), nb::arg("mode") = 0,
           nb::sig("def add_item(self, tensor: typing.Any, mode: int = 0) -> None"),
           "Appends a sequence to the document.")
      .def("add_document", &Builder::add_document, nb::arg("tensor"), nb::arg("lengths"),
           nb::arg("modes") = nb::none(),
           nb::sig("def add_document(self, tensor: typing.Any, lengths: typing.Any, modes: "
                   "typing.Any = None) -> None"),
           "Appends a document: the items of all its sequences, and the length of each.")
      .def("end_document", &Builder::end_document, "Ends the document; it may be empty.")
      .def("add_index", &Builder::add_index, nb::arg("path_prefix"),
           "Appends the whole dataset at a prefix, which must have the same dtype.")
      .def("finalize", &Builder::finalize, nb::arg("idx_path") = nb::none(),
           "Completes both files and gives them their names. idx_path: where the .idx must be, "
           "beside the .bin.");
}

}  // namespace

void bind_dataset(nb::module_& module) {
  bind_indexed_dataset(module);
  bind_builder(module);
}

}  // namespace meg::python
