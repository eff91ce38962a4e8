#include "python/bindings/samples.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/sample_loader.h"
#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/gpt_sample.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "python/bindings/errors.h"
#include "python/bindings/interruption.h"
#include "python/bindings/numpy_array.h"
#include "tools/common/flag_groups/data_flags.h"

namespace meg::python {
namespace {

namespace nb = nanobind;
using samples::SampleDataset;

/// What the three sets of one run share.
struct Run {
  std::vector<std::string> flags;
  samples::GptDatasets datasets;
  samples::GptSampleOptions sample;
  samples::DataRun data;
};

/// The data flags of a training command line.
tools::DataFlags parse_flags(const std::vector<std::string>& words) {
  tools::DataFlags data;
  megatron::ArgumentValues args;
  tools::Flags flags("GPTDataset", "the samples of a training run");
  tools::declare_data_flags(flags, data, args);
  std::vector<const char*> argv = {"GPTDataset"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const std::optional<int> code = flags.parse(static_cast<int>(argv.size()), argv.data(), out, err);
  if (code.has_value()) {
    const std::string said = err.str();
    constexpr std::string_view kError = "error: ";
    const size_t at = said.rfind(kError);
    check(Status(StatusCode::kInvalidArgument,
                 at == std::string::npos
                     ? "expected flags of samples, found one that only prints"
                     : said.substr(at + kError.size(), said.find('\n', at) - at - kError.size())));
  }
  check(tools::finish_data_flags(args, data));
  return data;
}

/// The tokens that end a document and fill a sample up, as the trainer takes them.
void take_tokenizer(const tools::DataFlags& flags, Run& run) {
  if (flags.mock_data) return;
  const tokenizer::TokenizerOptions options = value_of(tools::tokenizer_options(flags));
  const auto tokenizer = value_of(tokenizer::open_tokenizer(options));
  run.sample = tools::sample_options(flags, run.data, tokenizer->eod().value_or(-1),
                                     tokenizer::pad_of_datasets(*tokenizer, options));
}

/// Calls `progress` after every cache; what it raises is kept, for it must not pass through the
/// library.
class Progress {
 public:
  explicit Progress(nb::object progress) : progress_(std::move(progress)) {}

  void call(samples::Split split, int64_t done, int64_t datasets) {
    if (progress_.is_none()) return;
    const nb::gil_scoped_acquire acquire;
    try {
      const std::string_view name = samples::split_name(split);
      const nb::object wanted = progress_(nb::str(name.data(), name.size()), done, datasets);
      if (wanted.ptr() == Py_False) stopped_ = true;
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      stopped_ = true;
    }
  }

  bool stopped() const { return stopped_; }

  /// With the GIL.
  void rethrow() {
    if (raised_.has_value()) throw std::move(*raised_);
  }

 private:
  nb::object progress_;
  std::atomic<bool> stopped_ = false;
  std::optional<nb::python_error> raised_;
};

Status build(const tools::DataFlags& flags, const std::atomic<bool>& stop, Progress& progress,
             Run& run) {
  MEG_ASSIGN_OR_RETURN(run.data, tools::resolve_data_flags(flags, tools::environment_world_size()));
  run.sample = tools::sample_options(flags, run.data, -1, std::nullopt);
  take_tokenizer(flags, run);
  samples::GptDataConfig config = run.data.config;
  config.cancelled = [&] { return stop || progress.stopped(); };
  config.waiting = [&](const std::string&) { return !config.cancelled(); };
  config.cache_progress = [&](samples::Split split, int64_t done, int64_t datasets) {
    progress.call(split, done, datasets);
  };
  MEG_ASSIGN_OR_RETURN(run.datasets, samples::build_gpt_datasets(config));
  // The last of its calls may have said so.
  if (progress.stopped()) return Status(StatusCode::kCancelled, "progress: returned False");
  return {};
}

std::shared_ptr<const Run> open_run(const std::vector<std::string>& words,
                                    const nb::object& callback) {
  auto run = std::make_shared<Run>();
  run->flags = words;
  Progress progress(callback);
  Status status;
  run_interruptibly([&](const std::atomic<bool>& stop) {
    status = build(parse_flags(words), stop, progress, *run);
    return Status();
  });
  progress.rethrow();
  check(std::move(status));
  return run;
}

template <class T>
nb::object array_of(std::shared_ptr<std::vector<T>> values, std::initializer_list<size_t> shape) {
  const T* const data = values->data();
  return array_on(data, shape, nb::dtype<T>(), std::move(values), Writable::kYes);
}

/// What arrays are made with.
struct Numpy {
  nb::module_ module = nb::module_::import_("numpy");
  nb::object ndarray = module.attr("ndarray");
  nb::object int64 = module.attr("dtype")("int64");
  nb::object float32 = module.attr("dtype")("float32");
  nb::object boolean = module.attr("dtype")("bool");
};

/// Arrays of b samples. All are parts of one block of memory, which is not cleared before: of the
/// time that a sample takes, most went into four owners of memory and what numpy asks of each.
class Fields {
 public:
  Fields(const Numpy& numpy, int64_t samples, const samples::GptSampleOptions& options)
      : numpy_(numpy),
        samples_(static_cast<size_t>(samples)),
        length_(static_cast<size_t>(options.sequence_length)),
        mask_(options.reset_attention_mask ? length_ * length_ : 0),
        block_(nb::steal(PyByteArray_FromStringAndSize(
            nullptr, static_cast<Py_ssize_t>(samples_ * (length_ * kTokenBytes + mask_))))) {
    if (!block_.is_valid()) throw nb::python_error();
    data_ = PyByteArray_AsString(block_.ptr());
  }

  /// Those of one sample.
  samples::GptSampleFields row(size_t number) const {
    return {.tokens = part<int64_t>(kTokens, number, length_),
            .labels = part<int64_t>(kLabels, number, length_),
            .loss_mask = part<float>(kLossMask, number, length_),
            .position_ids = part<int64_t>(kPositionIds, number, length_),
            .attention_mask = part<uint8_t>(kAttentionMask, number, mask_)};
  }

  void copy(const samples::MicroBatch& batch) const {
    const samples::GptSampleFields first = row(0);
    std::copy(batch.tokens.begin(), batch.tokens.end(), first.tokens.data());
    std::copy(batch.labels.begin(), batch.labels.end(), first.labels.data());
    std::copy(batch.loss_mask.begin(), batch.loss_mask.end(), first.loss_mask.data());
    std::copy(batch.position_ids.begin(), batch.position_ids.end(), first.position_ids.data());
    std::copy(batch.attention_mask.begin(), batch.attention_mask.end(),
              first.attention_mask.data());
  }

  nb::dict one() const {
    return dict(nb::make_tuple(length_), nb::make_tuple(1, length_, length_));
  }

  nb::dict batch() const {
    return dict(nb::make_tuple(samples_, length_), nb::make_tuple(samples_, 1, length_, length_));
  }

  /// Each as one() has it.
  nb::list rows() const {
    const nb::dict all = batch();
    nb::list rows;
    for (size_t i = 0; i < samples_; ++i) {
      nb::dict row;
      for (const auto& [name, values] : all) row[name] = values[i];
      rows.append(row);
    }
    return rows;
  }

 private:
  /// Where arrays begin in the block, in bytes for each token of all samples; those of larger items
  /// come first, so that all are aligned.
  static constexpr size_t kTokens = 0, kLabels = 8, kPositionIds = 16, kLossMask = 24,
                          kAttentionMask = 28, kTokenBytes = 28;

  template <class T>
  std::span<T> part(size_t place, size_t number, size_t size) const {
    return {reinterpret_cast<T*>(data_ + place * samples_ * length_) + number * size, size};
  }

  nb::dict dict(const nb::tuple& shape, const nb::tuple& mask_shape) const {
    const auto array = [&](const nb::tuple& of_shape, const nb::object& dtype, size_t place) {
      return numpy_.ndarray(of_shape, dtype, block_, place * samples_ * length_);
    };
    nb::dict fields;
    fields["tokens"] = array(shape, numpy_.int64, kTokens);
    fields["labels"] = array(shape, numpy_.int64, kLabels);
    if (mask_ > 0) {
      fields["attention_mask"] = array(mask_shape, numpy_.boolean, kAttentionMask);
    }
    fields["loss_mask"] = array(shape, numpy_.float32, kLossMask);
    fields["position_ids"] = array(shape, numpy_.int64, kPositionIds);
    return fields;
  }

  const Numpy& numpy_;
  size_t samples_;
  size_t length_;
  size_t mask_;  // bytes of a sample's
  nb::object block_;
  char* data_ = nullptr;
};

/// What Batches gives: micro-batches, or samples without the dimension of a batch.
enum class Form { kBatches, kSamples };

/// The micro-batches of one data-parallel rank, or samples.
class Batches {
 public:
  Batches(std::shared_ptr<const Run> run, std::unique_ptr<samples::SampleLoader> loader, Form form)
      : run_(std::move(run)), loader_(std::move(loader)), form_(form) {}

  nb::dict next() {
    // The lock is waited for without the GIL, so that taking the GIL under it waits for nobody.
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    const samples::MicroBatch* const batch = value_of(loader_->next());
    const nb::gil_scoped_acquire acquire;
    if (batch == nullptr) throw nb::stop_iteration();
    const Fields fields(numpy_, batch->samples, run_->sample);
    {
      const nb::gil_scoped_release copying;
      fields.copy(*batch);
    }
    if (form_ == Form::kSamples) return fields.one();
    nb::dict arrays = fields.batch();
    arrays["sample_numbers"] =
        array_of(std::make_shared<std::vector<int64_t>>(batch->sample_numbers.begin(),
                                                        batch->sample_numbers.end()),
                 {batch->sample_numbers.size()});
    return arrays;
  }

 private:
  const Numpy numpy_;
  std::shared_ptr<const Run> run_;  ///< Outlives the loader, which reads its datasets.
  std::unique_ptr<samples::SampleLoader> loader_;
  const Form form_;
  std::mutex mutex_;
};

/// The samples of one split, or those of one dataset of its blend.
class GPTDataset {
 public:
  /// data: of the run. part: which of the blend's datasets it is.
  GPTDataset(std::shared_ptr<const Run> run, samples::Split split, const SampleDataset& data,
             std::optional<size_t> part = std::nullopt)
      : run_(std::move(run)), split_(split), data_(&data), part_(part) {}

  size_t size() const { return static_cast<size_t>(data().size()); }

  nb::dict item(nb::handle index) const {
    // An array of numpy says that it is a number, too.
    if (!nb::hasattr(index, "__len__")) return filled({number_of(index)}).one();
    return filled(numbers_of(index)).batch();
  }

  nb::list items(nb::handle indices) const { return filled(numbers_of(indices)).rows(); }

  nb::object text(nb::handle index) const {
    const std::shared_ptr<std::vector<int64_t>> text = read(index);
    return array_of(text, {text->size()});
  }

  nb::list source(nb::handle index) const {
    const samples::SampleSource source = value_of(data().source(number_of(index)));
    const std::string prefix = data().prefixes()[static_cast<size_t>(source.dataset)];
    nb::list parts;
    for (const samples::SamplePart& part : source.parts) {
      if (part.length == 0) continue;
      parts.append(nb::make_tuple(prefix, part.sequence, part.offset, part.length));
    }
    return parts;
  }

  std::unique_ptr<Batches> samples(int64_t consumed_samples, int num_workers, int ahead) const {
    return read_ahead({.total_samples = data().size(),
                       .consumed_samples = consumed_samples,
                       .micro_batch_size = 1},
                      num_workers, ahead, Form::kSamples);
  }

  std::unique_ptr<Batches> batches(int64_t micro_batch_size, int64_t data_parallel_rank,
                                   int64_t data_parallel_size, int64_t consumed_samples,
                                   const std::string& dataloader_type, bool data_sharding,
                                   int num_workers, int ahead) const {
    samples::BatchSampler::Options order{.total_samples = data().size(),
                                         .consumed_samples = consumed_samples,
                                         .micro_batch_size = micro_batch_size,
                                         .data_parallel_rank = data_parallel_rank,
                                         .data_parallel_size = data_parallel_size,
                                         .data_sharding = data_sharding};
    if (dataloader_type == "cyclic") {
      order.type = samples::DataloaderType::kCyclic;
    } else if (dataloader_type != "single") {
      refuse("dataloader_type: expected \"single\" or \"cyclic\", found \"{}\"", dataloader_type);
    }
    return read_ahead(order, num_workers, ahead, Form::kBatches);
  }

  nb::tuple reduced() const {
    return nb::make_tuple(nb::module_::import_("libmeg.samples").attr("open_split"),
                          nb::make_tuple(run_->flags, split(), part_));
  }

  const std::vector<std::string>& flags() const { return run_->flags; }

  const std::vector<std::string>& notes() const { return run_->datasets.notes; }

  std::vector<std::string> prefixes() const { return data().prefixes(); }

  std::string split() const { return std::string(samples::split_name(split_)); }

  int64_t sequence_length() const { return run_->sample.sequence_length; }

 protected:
  samples::Split place() const { return split_; }

  const SampleDataset& data() const { return *data_; }

  const std::shared_ptr<const Run>& run() const { return run_; }

  int64_t number_of(nb::handle index) const { return index_of(index, data().size()); }

  std::vector<int64_t> numbers_of(nb::handle indices) const {
    std::vector<int64_t> numbers;
    for (const nb::handle one : nb::iter(indices)) numbers.push_back(number_of(one));
    return numbers;
  }

  Fields filled(const std::vector<int64_t>& numbers) const {
    Fields fields(numpy_, static_cast<int64_t>(numbers.size()), run_->sample);
    std::vector<int64_t> text(static_cast<size_t>(data().text_length()));
    const nb::gil_scoped_release release;
    for (size_t i = 0; i < numbers.size(); ++i) {
      check(data().text(numbers[i], run_->sample.pad, text));
      samples::fill_gpt_sample(text, run_->sample, fields.row(i));
    }
    return fields;
  }

  std::unique_ptr<Batches> read_ahead(const samples::BatchSampler::Options& order, int threads,
                                      int ahead, Form form) const {
    samples::SampleLoader::Options options{.sample = run_->sample,
                                           .micro_batch_size = order.micro_batch_size,
                                           .threads = threads,
                                           .ahead = ahead};
    std::unique_ptr<samples::SampleLoader> loader;
    {
      const nb::gil_scoped_release release;
      loader = value_of(samples::SampleLoader::create(
          data(), value_of(samples::BatchSampler::create(order)), options));
    }
    return std::make_unique<Batches>(run_, std::move(loader), form);
  }

  std::shared_ptr<std::vector<int64_t>> read(nb::handle index) const {
    const int64_t sample = number_of(index);
    auto text = std::make_shared<std::vector<int64_t>>(static_cast<size_t>(data().text_length()));
    const nb::gil_scoped_release release;
    check(data().text(sample, run_->sample.pad, *text));
    return text;
  }

 private:
  Numpy numpy_;
  std::shared_ptr<const Run> run_;
  samples::Split split_;
  const SampleDataset* data_;
  std::optional<size_t> part_;
};

/// The samples of a split that are drawn from several datasets.
class BlendedDataset : public GPTDataset {
 public:
  BlendedDataset(std::shared_ptr<const Run> run, samples::Split split,
                 const samples::BlendedDataset& blend)
      : GPTDataset(std::move(run), split, blend), blend_(&blend) {}

  /// Of the sample, with its dataset under the name that Megatron gives it.
  nb::dict item(nb::handle index) const {
    nb::dict fields = GPTDataset::item(index);
    fields["dataset_id"] =
        nb::hasattr(index, "__len__") ? dataset_ids(index) : dataset_index()[number_of(index)];
    return fields;
  }

  nb::list items(nb::handle indices) const {
    nb::list rows = GPTDataset::items(indices);
    const nb::object ids = dataset_ids(indices);
    for (size_t i = 0; i < nb::len(rows); ++i) rows[i]["dataset_id"] = ids[i];
    return rows;
  }

  nb::object dataset_index() const {
    return std::visit([&](auto all) { return array(all); }, blend_->index().datasets);
  }

  nb::object dataset_sample_index() const { return array(blend_->index().samples); }

  nb::list datasets() const {
    nb::list parts;
    for (const auto& part : blend_->datasets()) {
      parts.append(GPTDataset(run(), place(), *part, nb::len(parts)));
    }
    return parts;
  }

 private:
  nb::object dataset_ids(nb::handle indices) const {
    auto numbers = std::make_shared<std::vector<int64_t>>(numbers_of(indices));
    const size_t count = numbers->size();
    return dataset_index()[array_of(std::move(numbers), {count})];
  }

  template <class T>
  nb::object array(std::span<const T> values) const {
    return array_on(values.data(), {values.size()}, nb::dtype<T>(), run(), Writable::kNo);
  }

  const samples::BlendedDataset* blend_;
};

nb::object set_of(const std::shared_ptr<const Run>& run, samples::Split split) {
  const SampleDataset* const data = run->datasets.splits[samples::split_number(split)].get();
  if (data == nullptr) return nb::none();
  if (const auto* const blend = dynamic_cast<const samples::BlendedDataset*>(data)) {
    return nb::cast(BlendedDataset(run, split, *blend));
  }
  return nb::cast(GPTDataset(run, split, *data));
}

nb::tuple from_flags(const std::vector<std::string>& flags, const nb::object& progress) {
  const std::shared_ptr<const Run> run = open_run(flags, progress);
  return nb::make_tuple(set_of(run, samples::Split::kTrain), set_of(run, samples::Split::kValid),
                        set_of(run, samples::Split::kTest));
}

}  // namespace

void bind_samples(nb::module_& module) {
  nb::class_<Batches>(
      module, "Batches",
      R"(An iterator over the micro-batches of one data-parallel rank, or over samples, read ahead by threads.

Each is a dictionary of what GPTDataset has for a sample, of shape [b, L] (attention_mask: [b, 1, L, L]), and
``sample_numbers``: int64, [b]. The arrays are the caller's. Every thread may take the next one.)")
      .def(
          "__iter__", [](nb::object self) { return self; },
          nb::sig("def __iter__(self) -> Batches"))
      .def("__next__", &Batches::next, nb::sig("def __next__(self) -> dict[str, typing.Any]"));

  nb::class_<GPTDataset>(module, "GPTDataset",
                         R"(The samples of one split of a run, in Megatron's order.

``libmeg.gpt_datasets(...)`` and ``GPTDataset.from_flags(...)`` make them. ``dataset[i]`` is a dictionary of numpy arrays,
as Megatron's GPTDataset gives it: ``tokens``, ``labels``, ``position_ids`` (int64, [L]), ``loss_mask`` (float32,
[L]) and, with ``reset_attention_mask``, ``attention_mask`` (bool, [1, L, L], True is hidden); without it attention
is causal. Any number of threads may read one set; pickled, it is opened again by its flags and finds its index caches.)")
      .def("__len__", &GPTDataset::size, "The number of samples.")
      .def(
          "__getitem__", &GPTDataset::item, nb::arg("idx"),
          nb::sig("def __getitem__(self, idx: int | collections.abc.Iterable[int], /) -> "
                  "dict[str, typing.Any]"),
          R"(Sample ``idx``, which may be negative; or several at once, with b as the first dimension of every array.

Raises:
    IndexError: there is no such sample. CorruptionError: an index points outside its data.)")
      .def("__getitems__", &GPTDataset::items, nb::arg("idx"),
           nb::sig("def __getitems__(self, idx: collections.abc.Iterable[int], /) -> "
                   "list[dict[str, typing.Any]]"),
           "The samples ``idx``, each as ``dataset[i]`` gives it, on memory that they share; a "
           "DataLoader of torch asks for a batch so.")
      .def("text", &GPTDataset::text, nb::arg("idx"),
           nb::sig("def text(self, idx: int) -> numpy.typing.NDArray[numpy.int64]"),
           "The tokens of sample ``idx``: int64, [L + 1], or [L] with ``no_extra_token``.")
      .def("source", &GPTDataset::source, nb::arg("idx"),
           nb::sig("def source(self, idx: int) -> list[tuple[str, int, int, int]]"),
           "Where they come from: (prefix, sequence, first token in it, tokens) of each part.")
      .def("samples", &GPTDataset::samples, nb::arg("consumed_samples") = 0,
           nb::arg("num_workers") = 2, nb::arg("ahead") = 32,
           R"(The samples in order, once, read ahead by threads; each as GPTDataset gives it.

Args:
    consumed_samples: how many to leave out.
    num_workers: threads that read; 0: whoever asks.
    ahead: samples read ahead.)")
      .def("batches", &GPTDataset::batches, nb::arg("micro_batch_size"),
           nb::arg("data_parallel_rank") = 0, nb::arg("data_parallel_size") = 1,
           nb::arg("consumed_samples") = 0, nb::arg("dataloader_type") = "single",
           nb::arg("data_sharding") = true, nb::arg("num_workers") = 2, nb::arg("ahead") = 4,
           R"(The micro-batches of a rank, in the order of Megatron's samplers.

Args:
    micro_batch_size: samples in each.
    data_parallel_rank, data_parallel_size: the rank.
    consumed_samples: by all ranks before.
    dataloader_type: "single" (in order, once; an incomplete batch is dropped) or "cyclic" (shuffled in each epoch,
        without end).
    data_sharding: with "cyclic", each rank keeps to its own part.
    num_workers: threads that read; 0: whoever asks.
    ahead: micro-batches read ahead.)")
      .def_prop_ro("sequence_length", &GPTDataset::sequence_length, "L, tokens of a sample.")
      .def_prop_ro("split", &GPTDataset::split, "\"train\", \"valid\" or \"test\".")
      .def_prop_ro("prefixes", &GPTDataset::prefixes, "The datasets that samples come from.")
      .def_prop_ro("flags", &GPTDataset::flags, "The flags that it was made by.")
      .def_prop_ro("notes", &GPTDataset::notes, "What a user should know; one line each.")
      .def("__reduce__", &GPTDataset::reduced)
      .def("__repr__",
           [](nb::handle self) {
             const auto& set = nb::cast<const GPTDataset&>(self);
             const nb::str name(self.type().attr("__name__"));
             return fmt::format("<{} {}: {} samples of {} tokens>", name.c_str(), set.split(),
                                set.size(), set.sequence_length());
           })
      .def_static(
          "from_flags", &from_flags, nb::arg("flags"), nb::arg("progress") = nb::none(),
          nb::sig("def from_flags(flags: collections.abc.Sequence[str], progress: "
                  "collections.abc.Callable[[str, int, int], bool | None] | None = None) -> "
                  "tuple[GPTDataset | None, GPTDataset | None, GPTDataset | None]"),
          R"(The train, valid and test samples of a run by the words of its command line.

A split without samples is None, one of several datasets a BlendedDataset. Index caches are found, or built in the format that Megatron reads. Flags that make no
difference to samples are ignored, as ``prepare_cache`` ignores them; others are refused.

Args:
    flags: such as ["--data-path", "corpus_text_document", "--seq-length", "1024", ...].
    progress: called after the index cache of each dataset with the split, how many are done and how many there are;
        False ends the work with CancelledError.

Raises:
    ValueError: wrong usage, with the flag's name. Other libmeg.Error: the files, with their names.)");

  nb::class_<BlendedDataset, GPTDataset>(
      module, "BlendedDataset",
      R"(The samples of one split of a run that are drawn from several datasets by weight, in Megatron's order.

A sample has what those of GPTDataset have, and ``dataset_id``, the number of the dataset that it comes from; with several
at once that is an array, [b].)")
      .def("__getitem__", &BlendedDataset::item, nb::arg("idx"),
           nb::sig("def __getitem__(self, idx: int | collections.abc.Iterable[int], /) -> "
                   "dict[str, typing.Any]"),
           "As that of GPTDataset.")
      .def("__getitems__", &BlendedDataset::items, nb::arg("idx"),
           nb::sig("def __getitems__(self, idx: collections.abc.Iterable[int], /) -> "
                   "list[dict[str, typing.Any]]"),
           "As that of GPTDataset.")
      .def_prop_ro("dataset_index", &BlendedDataset::dataset_index,
                   nb::sig("def dataset_index(self, /) -> numpy.typing.NDArray[typing.Any]"),
                   "The dataset that each sample comes from: int16 (uint8 in revisions before "
                   "core), [samples], "
                   "in place and read-only.")
      .def_prop_ro(
          "dataset_sample_index", &BlendedDataset::dataset_sample_index,
          nb::sig("def dataset_sample_index(self, /) -> numpy.typing.NDArray[numpy.int64]"),
          "Which of that dataset's samples it is: int64, [samples], in place and read-only.")
      .def_prop_ro("datasets", &BlendedDataset::datasets,
                   nb::sig("def datasets(self, /) -> list[GPTDataset]"),
                   "The sets that samples are drawn from.");
}

}  // namespace meg::python
