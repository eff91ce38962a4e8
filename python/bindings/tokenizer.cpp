#include "python/bindings/tokenizer.h"

#include <fmt/ranges.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/interface/decode_stream.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "python/bindings/errors.h"
#include "python/bindings/fields.h"
#include "python/bindings/interruption.h"
#include "python/bindings/numpy_array.h"

namespace meg::python {
namespace {

namespace nb = nanobind;
using tokenizer::TokenBuffer;
using tokenizer::TokenEncoder;
using tokenizer::TokenizerOptions;

/// Text below which threads, and giving the GIL to others, take longer than the work.
constexpr size_t kFewBytes = size_t{32} << 10;
constexpr size_t kPartBytes = size_t{256} << 10;

/// The keyword beside Megatron's arguments.
constexpr const char* kVersionKeyword = "megatron_version";

/// A text of Python's, whose bytes stay where they are as long as its object lives.
struct PythonText {
  std::string_view text;
  bool is_str = false;  ///< Then it is UTF-8; that of bytes is to be checked.
};

/// Where a text was given, for messages.
std::string place_of(std::optional<size_t> index) {
  return index.has_value() ? fmt::format("texts[{}]", *index) : "text";
}

PythonText python_text(nb::handle object, std::optional<size_t> index = std::nullopt) {
  Py_ssize_t size = 0;
  if (PyUnicode_Check(object.ptr())) {
    const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text == nullptr) throw nb::python_error();  // lone surrogates
    return {{text, static_cast<size_t>(size)}, true};
  }
  if (PyBytes_Check(object.ptr())) {
    char* bytes = nullptr;
    PyBytes_AsStringAndSize(object.ptr(), &bytes, &size);
    return {{bytes, static_cast<size_t>(size)}, false};
  }
  throw nb::type_error(fmt::format("{}: expected str or bytes, found {}", place_of(index),
                                   nb::type_name(object.type()).c_str())
                           .c_str());
}

Status check_utf8(const PythonText& text) {
  if (text.is_str) return {};
  const size_t at = text::find_invalid_utf8(text.text);
  if (at == text.text.npos) return {};
  return make_error(StatusCode::kInvalidArgument, "byte {}: expected UTF-8, found {}", at,
                    text::printable(text.text.substr(at, 4)));
}

/// The ids of one part of the texts, and how many each text has.
struct Part {
  TokenBuffer ids;
  std::vector<int64_t> sizes;

  void clear() {
    ids.clear();
    sizes.clear();
  }
};

/// Joins parts in their order, each as soon as those before it are there, so that ids are in fresh
/// memory only once: for long inputs the system takes longer to clear that than an encoder to fill
/// it.
class JoinedParts {
 public:
  explicit JoinedParts(DType dtype) : dtype_(dtype) {}

  /// From any thread. number: counts up from 0. Gives back an empty part to fill.
  Part add(int64_t number, Part part) {
    struct Placed {
      Part part;
      int64_t place;  // of its first token
    };

    std::vector<Placed> ready;
    {
      const std::lock_guard lock(order_);
      waiting_.emplace(number, std::move(part));
      for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;
           first = waiting_.erase(first), ++next_) {
        ready.push_back({std::move(first->second), offsets_.back()});
        for (const int64_t size : ready.back().part.sizes) {
          offsets_.push_back(offsets_.back() + size);
        }
      }
      reserve(offsets_.back());
    }
    if (ready.empty()) return {.ids = TokenBuffer(dtype_), .sizes = {}};
    const std::shared_lock lock(memory_);
    for (const Placed& placed : ready) {
      const std::span<const std::byte> ids = placed.part.ids.bytes();
      if (!ids.empty()) {
        std::memcpy(ids_.get() + placed.place * dtype_size(dtype_), ids.data(), ids.size());
      }
    }
    ready[0].part.clear();
    return std::move(ready[0].part);
  }

  /// (ids, offsets), after all parts.
  nb::tuple arrays() {
    const NewArray offsets(std::ssize(offsets_), "int64");
    std::memcpy(offsets.data, offsets_.data(), offsets_.size() * sizeof(int64_t));
    const auto tokens = static_cast<size_t>(offsets_.back());
    const auto bits = static_cast<uint8_t>(8 * dtype_size(dtype_));
    const auto code =
        dtype_ == DType::kUint16 ? nb::dlpack::dtype_code::UInt : nb::dlpack::dtype_code::Int;
    resize(std::max<int64_t>(offsets_.back(), 1));
    const nb::capsule owner(ids_.get(), [](void* memory) noexcept { std::free(memory); });
    std::byte* const data = ids_.release();
    return nb::make_tuple(
        nb::ndarray<nb::numpy>(data, {tokens}, owner, {}, {static_cast<uint8_t>(code), bits, 1}),
        offsets.array);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  void reserve(int64_t tokens) {
    if (tokens <= capacity_) return;
    const std::unique_lock lock(memory_);
    resize(std::max(tokens, capacity_ + capacity_ / 2));
  }

  /// As TokenBuffer's: large memory grows by moving pages.
  void resize(int64_t tokens) {
    void* const moved = std::realloc(
        ids_.get(), static_cast<size_t>(tokens) * static_cast<size_t>(dtype_size(dtype_)));
    if (moved == nullptr) throw std::bad_alloc();
    (void)ids_.release();
    ids_.reset(static_cast<std::byte*>(moved));
    capacity_ = tokens;
  }

  const DType dtype_;
  std::mutex order_;  // guards what follows
  std::map<int64_t, Part> waiting_;
  int64_t next_ = 0;
  std::vector<int64_t> offsets_ = {0};
  int64_t capacity_ = 0;      // tokens
  std::shared_mutex memory_;  // held to write into ids_; held alone to move it
  std::unique_ptr<std::byte, Free> ids_;
};

/// Encodes the texts of one thread, part after part.
class PartEncoder final : public preprocess::TextVisitor {
 public:
  PartEncoder(TokenEncoder& encoder, DType dtype, JoinedParts& joined)
      : encoder_(encoder), joined_(joined), part_{.ids = TokenBuffer(dtype), .sizes = {}} {}

  void begin_part(int64_t number) override {
    close_part();
    number_ = number;
  }

  void close_part() {
    if (number_.has_value()) part_ = joined_.add(*number_, std::move(part_));
    number_.reset();
  }

  Status visit(std::string_view text) override {
    const int64_t before = part_.ids.size();
    MEG_RETURN_IF_ERROR(encoder_.encode(text, part_.ids));
    part_.sizes.push_back(part_.ids.size() - before);
    return {};
  }

  /// A text that may end where no more memory can be read.
  Status visit_unpadded(std::string_view text) {
    padded_.resize(std::max(padded_.size(), text.size() + text::kTextPadding));
    std::memcpy(padded_.data(), text.data(), text.size());
    return visit({padded_.data(), text.size()});
  }

 private:
  TokenEncoder& encoder_;
  JoinedParts& joined_;
  Part part_;
  std::optional<int64_t> number_;
  std::vector<char> padded_;
};

/// The texts of a batch, shared out to threads in parts of about kPartBytes.
class Batch {
 public:
  explicit Batch(std::vector<PythonText> texts) : texts_(std::move(texts)) {}

  /// Encodes parts until there are no more. Errors are those of the first text that has one.
  void encode(PartEncoder& encoder, const std::atomic<bool>& stop) {
    while (!stop) {
      const auto [number, begin, end] = next_part();
      if (begin == end) return encoder.close_part();
      encoder.begin_part(number);
      for (size_t i = begin; i < end; ++i) {
        Status status = check_utf8(texts_[i]);
        if (status.ok()) status = encoder.visit_unpadded(texts_[i].text);
        if (!status.ok()) return fail(i, status);
      }
    }
  }

  Status status() const { return status_; }

 private:
  /// A part's number, its first text, and its end; an empty one after the last.
  std::tuple<int64_t, size_t, size_t> next_part() {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return {};
    const size_t begin = next_;
    for (size_t bytes = 0; next_ < texts_.size() && bytes < kPartBytes; ++next_) {
      bytes += texts_[next_].text.size() + 1;
    }
    return {parts_++, begin, next_};
  }

  void fail(size_t text, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok() && failed_ < text) return;
    failed_ = text;
    status_ = status.with_prefix(place_of(text));
  }

  const std::vector<PythonText> texts_;
  std::mutex mutex_;
  size_t next_ = 0;
  int64_t parts_ = 0;
  size_t failed_ = 0;
  Status status_;
};

int checked_threads(std::optional<int> threads) {
  if (!threads.has_value()) return available_processors();
  if (*threads < 1 || *threads > 4096) {
    refuse("threads: expected 1 to 4096, found {}", *threads);
  }
  return *threads;
}

/// Ids that Python gives: a list or another iterable of int, or an array of integers.
std::vector<int32_t> ids_of(nb::handle given, const tokenizer::Tokenizer& tokenizer);

class PythonTokenizer {
 public:
  explicit PythonTokenizer(nb::dict options) : options_(std::move(options)) {
    TokenizerOptions parsed = parse(options_);
    run_interruptibly([&](const std::atomic<bool>&) -> Status {
      MEG_ASSIGN_OR_RETURN(tokenizer_, tokenizer::open_tokenizer(parsed));
      return {};
    });
    type_ = parsed.tokenizer_type;
  }

  const nb::dict& options() const { return options_; }

  const std::string& type() const { return type_; }

  const tokenizer::Tokenizer& get() const { return *tokenizer_; }

  nb::object encode(nb::handle text) {
    const PythonText given = python_text(text);
    return encode_with(DType::kInt32, 1, given.text.size() < kFewBytes,
                       [&](std::span<PartEncoder> encoders, const std::atomic<bool>&) {
                         encoders[0].begin_part(0);
                         Status status = check_utf8(given);
                         if (status.ok()) status = encoders[0].visit_unpadded(given.text);
                         return status.with_prefix(place_of(std::nullopt));
                       })[0];
  }

  nb::tuple encode_batch(nb::handle texts, std::optional<int> threads, nb::handle dtype) {
    if (PyUnicode_Check(texts.ptr()) || PyBytes_Check(texts.ptr())) {
      throw nb::type_error("texts: expected a list of str or bytes, found one");
    }
    const DType item = item_dtype(dtype);
    // Holds the texts, whatever other threads do to the list.
    const auto held = nb::steal<nb::tuple>(PySequence_Tuple(texts.ptr()));
    if (!held.is_valid()) throw nb::python_error();
    std::vector<PythonText> views;
    views.reserve(held.size());
    size_t bytes = 0;
    for (const nb::handle text : held) {
      views.push_back(python_text(text, views.size()));
      bytes += views.back().text.size();
    }
    const auto most = static_cast<int>(bytes / kPartBytes + 1);
    const int count = std::min(checked_threads(threads), most);
    Batch batch(std::move(views));
    return encode_with(item, count, bytes < kFewBytes,
                       [&](std::span<PartEncoder> encoders, const std::atomic<bool>& stop) {
                         if (encoders.size() == 1) {
                           batch.encode(encoders[0], stop);
                           return batch.status();
                         }
                         ThreadPool pool(static_cast<int>(encoders.size()));
                         for (PartEncoder& encoder : encoders) {
                           pool.submit([&] { batch.encode(encoder, stop); });
                         }
                         pool.wait();
                         return batch.status();
                       });
  }

  nb::tuple encode_files(preprocess::ReadTextsOptions options, std::optional<int> threads,
                         nb::handle dtype) {
    preprocess::ReadTextsSummary summary;
    const nb::tuple encoded = encode_with(
        item_dtype(dtype), checked_threads(threads), false,
        [&](std::span<PartEncoder> encoders, const std::atomic<bool>& stop) -> Status {
          std::vector<preprocess::TextVisitor*> visitors;
          for (PartEncoder& encoder : encoders) visitors.push_back(&encoder);
          MEG_ASSIGN_OR_RETURN(
              summary, preprocess::read_texts(options, visitors,
                                              [&stop](const Progress&) { return !stop.load(); }));
          return {};
        });
    std::vector<std::string> warnings = std::move(summary.warnings);
    if (summary.skipped_lines > 0) {
      warnings.push_back(fmt::format("skipped {} invalid lines, the first: {}",
                                     summary.skipped_lines, summary.skipped_examples.at(0)));
    }
    for (const std::string& warning : warnings) {
      if (PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 1) != 0) throw nb::python_error();
    }
    return encoded;
  }

  nb::object decode(nb::handle ids) const {
    const std::vector<int32_t> given = ids_of(ids, *tokenizer_);
    Result<std::string> text = std::string();
    if (given.size() < kFewBytes) {
      text = tokenizer_->decode(given);
    } else {
      const nb::gil_scoped_release release;
      text = tokenizer_->decode(given);
    }
    const std::string bytes = value_of(std::move(text));
    return nb::str(bytes.data(), bytes.size());
  }

 private:
  /// Encoders that nobody else uses meanwhile; their caches of words are kept for the next call.
  class Encoders {
   public:
    /// With the GIL, which guards the unused ones, and so in a process after fork, too.
    Encoders(PythonTokenizer& tokenizer, DType dtype, int count)
        : unused_(tokenizer.unused_[dtype == DType::kUint16 ? 1 : 0]) {
      for (int i = 0; i < count; ++i) {
        if (unused_.empty()) {
          taken_.push_back(tokenizer.tokenizer_->new_encoder(dtype));
        } else {
          taken_.push_back(std::move(unused_.back()));
          unused_.pop_back();
        }
      }
    }

    Encoders(const Encoders&) = delete;
    Encoders& operator=(const Encoders&) = delete;

    ~Encoders() {
      for (auto& encoder : taken_) {
        if (unused_.size() < kKept) unused_.push_back(std::move(encoder));
      }
    }

    TokenEncoder& operator[](size_t i) const { return *taken_[i]; }

   private:
    static constexpr size_t kKept = 64;

    std::vector<std::unique_ptr<TokenEncoder>>& unused_;
    std::vector<std::unique_ptr<TokenEncoder>> taken_;
  };

  template <class Work>
  nb::tuple encode_with(DType dtype, int threads, bool at_once, const Work& work) {
    const Encoders encoders(*this, dtype, threads);
    JoinedParts joined(dtype);
    std::vector<PartEncoder> parts;
    parts.reserve(static_cast<size_t>(threads));
    for (size_t i = 0; i < static_cast<size_t>(threads); ++i) {
      parts.emplace_back(encoders[i], dtype, joined);
    }
    if (at_once) {
      check(work(std::span(parts), std::atomic<bool>(false)));
    } else {
      run_interruptibly(
          [&](const std::atomic<bool>& stop) { return work(std::span(parts), stop); });
    }
    for (PartEncoder& part : parts) part.close_part();
    return joined.arrays();
  }

  DType item_dtype(nb::handle dtype) const {
    const auto name =
        nb::cast<std::string>(nb::module_::import_("numpy").attr("dtype")(dtype).attr("name"));
    const std::optional<DType> item = dtype_from_name(name);
    if (item != DType::kInt32 && item != DType::kUint16) {
      check(make_error(StatusCode::kInvalidArgument, "dtype: expected int32 or uint16, found {}",
                       name));
    }
    if (item == DType::kUint16 && tokenizer_->max_id() > std::numeric_limits<uint16_t>::max()) {
      check(make_error(StatusCode::kInvalidArgument,
                       "dtype: expected int32 for ids up to {}, found uint16",
                       tokenizer_->max_id()));
    }
    return *item;
  }

  static TokenizerOptions parse(const nb::dict& given) {
    const megatron::FieldLookup lookup = fields_of(given);
    TokenizerOptions options;
    std::optional<std::string> version;
    const auto read = [&](const megatron::FieldLookup& fields) {
      megatron::FieldReader args(fields);
      options.take_fields(args);
      args.take(kVersionKeyword, version);
      return args.status();
    };
    const std::vector<std::string> known =
        megatron::fields_read_by([&](const megatron::FieldLookup& fields) { (void)read(fields); });
    for (const auto& [key, value] : given) {
      const auto name = nb::cast<std::string>(key);
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw nb::type_error(fmt::format("Tokenizer.open(): unknown argument {}, expected one of {}",
                                       name, fmt::join(known, ", "))
                               .c_str());
    }
    check(read(lookup));
    if (version.has_value()) options.version = value_of(megatron::parse_megatron_version(*version));
    return options;
  }

  nb::dict options_;
  std::string type_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<TokenEncoder>> unused_[2];  // for int32 and uint16
};

[[noreturn]] void refuse_id(size_t index, const std::string& found,
                            const tokenizer::Tokenizer& tokenizer) {
  check(make_error(StatusCode::kOutOfRange,
                   "token {}: expected an id of the vocabulary (largest {}), found {}", index,
                   tokenizer.max_id(), found));
  std::abort();
}

/// One id of an iterable: an int, or what says that it is one, as numpy's integers do.
int32_t id_of(nb::handle item, size_t index, const tokenizer::Tokenizer& tokenizer) {
  const nb::object number = nb::steal(PyNumber_Index(item.ptr()));
  if (!number.is_valid() || nb::isinstance<nb::bool_>(item)) {
    PyErr_Clear();
    throw nb::type_error(fmt::format("token {}: expected an int, found {}", index,
                                     nb::type_name(item.type()).c_str())
                             .c_str());
  }
  int overflow = 0;
  const int64_t id = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || !std::in_range<int32_t>(id)) {
    refuse_id(index, nb::str(number).c_str(), tokenizer);
  }
  return static_cast<int32_t>(id);
}

template <class T>
void take_ids(const nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>& array,
              const tokenizer::Tokenizer& tokenizer, std::vector<int32_t>& ids) {
  const T* const data = static_cast<const T*>(array.data());
  for (size_t i = 0; i < array.shape(0); ++i) {
    const T id = data[static_cast<int64_t>(i) * array.stride(0)];
    if (!std::in_range<int32_t>(id)) {
      refuse_id(i, std::to_string(id), tokenizer);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
}

std::vector<int32_t> ids_of(nb::handle given, const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  if (!nb::ndarray_check(given)) {
    for (const nb::handle item : nb::borrow(given)) {
      ids.push_back(id_of(item, ids.size(), tokenizer));
    }
    return ids;
  }
  nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu> array;
  if (!nb::try_cast(given, array)) {
    throw nb::type_error("ids: expected an array of one dimension on the CPU");
  }
  ids.reserve(array.shape(0));
  const auto take = [&]<class... T>() {
    return ((array.dtype() == nb::dtype<T>() && (take_ids<T>(array, tokenizer, ids), true)) || ...);
  };
  if (take.operator()<int32_t, uint16_t, int64_t, uint32_t, uint64_t, int16_t, uint8_t, int8_t>()) {
    return ids;
  }
  throw nb::type_error("ids: expected an array of integers");
}

/// Python's iterator over the pieces of a text whose ids come from another iterator.
class Pieces {
 public:
  Pieces(const nb::object& tokenizer, nb::handle ids)
      : tokenizer_(tokenizer),
        ids_(nb::iter(ids)),
        stream_(nb::cast<const PythonTokenizer&>(tokenizer).get()) {}

  nb::str next() {
    const tokenizer::Tokenizer& tokenizer = nb::cast<const PythonTokenizer&>(tokenizer_).get();
    while (!is_finished_) {
      const nb::object item = nb::steal(PyIter_Next(ids_.ptr()));
      if (!item.is_valid() && PyErr_Occurred() != nullptr) throw nb::python_error();
      is_finished_ = !item.is_valid();
      const std::string piece =
          value_of(is_finished_ ? stream_.finish() : stream_.add(id_of(item, count_++, tokenizer)));
      if (!piece.empty()) return nb::str(piece.data(), piece.size());
    }
    throw nb::stop_iteration();
  }

 private:
  nb::object tokenizer_;
  nb::object ids_;
  tokenizer::DecodeStream stream_;
  size_t count_ = 0;
  bool is_finished_ = false;
};

preprocess::ReadTextsOptions files_options(nb::handle paths,
                                           const std::vector<std::string>& json_keys,
                                           const std::string& input_format,
                                           const std::string& on_error,
                                           std::optional<int64_t> max_documents) {
  preprocess::ReadTextsOptions options;
  const nb::object fsdecode = nb::module_::import_("os").attr("fsdecode");
  if (PyUnicode_Check(paths.ptr()) || nb::hasattr(paths, "__fspath__")) {
    options.inputs.push_back(nb::cast<std::string>(fsdecode(paths)));
  } else {
    for (const nb::handle path : nb::borrow(paths)) {
      options.inputs.push_back(nb::cast<std::string>(fsdecode(path)));
    }
  }
  options.json_keys = json_keys;
  options.max_documents = max_documents;
  const auto choose = [](const char* name, const std::string& found, const auto& choices,
                         const char* expected) {
    for (const auto& [word, value] : choices) {
      if (found == word) return value;
    }
    refuse("{}: expected {}, found {}", name, expected, found);
  };
  using preprocess::InputFormat;
  using preprocess::OnError;
  options.input.format = choose(
      "input_format", input_format,
      std::initializer_list<std::pair<const char*, InputFormat>>{{"auto", InputFormat::kAuto},
                                                                 {"json", InputFormat::kJson},
                                                                 {"csv", InputFormat::kCsv},
                                                                 {"txt", InputFormat::kTxt}},
      "auto, json, csv or txt");
  options.on_error = choose("on_error", on_error,
                            std::initializer_list<std::pair<const char*, OnError>>{
                                {"fail", OnError::kFail}, {"skip", OnError::kSkip}},
                            "fail or skip");
  return options;
}

/// Tokenizer.open: a path alone is that of a Hugging Face tokenizer.
nb::object open(const nb::object& path, const nb::kwargs& given) {
  nb::dict options;
  for (const auto& [key, value] : given) options[key] = value;
  if (!path.is_none()) {
    if (options.contains("tokenizer_model")) {
      throw nb::type_error("Tokenizer.open(): expected a path or tokenizer_model, found both");
    }
    options["tokenizer_model"] = nb::module_::import_("os").attr("fsdecode")(path);
    if (!options.contains("tokenizer_type")) options["tokenizer_type"] = "HuggingFaceTokenizer";
  }
  return nb::cast(new PythonTokenizer(std::move(options)), nb::rv_policy::take_ownership);
}

nb::object token_bytes(const PythonTokenizer& self, nb::handle id) {
  const int32_t number = id_of(id, 0, self.get());
  const auto bytes = self.get().token_bytes(number);
  if (!bytes.has_value()) {
    if (number < 0 || number > self.get().max_id())
      refuse_id(0, std::to_string(number), self.get());
    return nb::none();
  }
  return nb::bytes(bytes->data(), bytes->size());
}

nb::dict special_tokens(const PythonTokenizer& self) {
  nb::dict tokens;
  for (const tokenizer::SpecialToken& token : self.get().special_tokens()) {
    tokens[nb::str(token.text.data(), token.text.size())] = token.id;
  }
  return tokens;
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Pieces>(module, "Pieces", "The pieces of a text, from Tokenizer.decode_stream().")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> Pieces"))
      .def("__next__", &Pieces::next);

  nb::class_<PythonTokenizer>(module, "Tokenizer",
                              R"(Text to token ids and back, as Megatron-LM's classes do it.

Opened by Tokenizer.open(). Any number of threads may use one; it can be pickled, as the
arguments that it was opened with.)")
      .def_static("open", &open, nb::arg("path") = nb::none(), nb::arg("options"),
                  nb::sig("def open(path: str | os.PathLike[str] | None = None, /, **options: "
                          "object) -> Tokenizer"),
                  R"(Open a tokenizer by Megatron-LM's arguments.

path: stands for tokenizer_model; without tokenizer_type it is the tokenizer.json, or the folder
with it, of a HuggingFaceTokenizer.
options: tokenizer_type, vocab_file, merge_file, tokenizer_model, vocab_size, vocab_extra_ids,
tiktoken_pattern ..., each as the field of Megatron's args; megatron_version is the revision to
follow where revisions differ, such as "v2.6".

Raises TypeError for an unknown argument, InvalidArgumentError for a missing or a wrong one, and
the errors of the files: NotFoundError, CorruptionError, UnsupportedError.)")
      .def("encode", &PythonTokenizer::encode, nb::arg("text"),
           nb::sig("def encode(self, text: str | bytes) -> numpy.typing.NDArray[numpy.int32]"),
           R"(The ids of a text, as int32 of shape (tokens,).

Raises UnicodeEncodeError for a str with lone surrogates, InvalidArgumentError for bytes that are
not UTF-8 and for a text that has no ids (NullTokenizer).)")
      .def("encode_batch", &PythonTokenizer::encode_batch, nb::arg("texts"),
           nb::arg("threads") = nb::none(), nb::arg("dtype") = "int32",
           nb::sig("def encode_batch(self, texts: collections.abc.Iterable[str | bytes], threads: "
                   "int | None = None, dtype: numpy.typing.DTypeLike = 'int32') -> "
                   "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[numpy.int64]]"),
           R"(The ids of many texts: (ids, offsets).

ids: of all texts one after another, of dtype int32 or uint16. offsets: int64 of shape
(len(texts) + 1,); those of texts[i] are ids[offsets[i]:offsets[i + 1]].
threads: None is one per processor.

Runs without the GIL and ends at Ctrl-C. Raises as encode(), for the first text that is wrong, and
InvalidArgumentError for a dtype that the ids do not fit.)")
      .def(
          "encode_files",
          [](PythonTokenizer& self, nb::handle paths, const std::vector<std::string>& json_keys,
             std::optional<int> threads, nb::handle dtype, const std::string& input_format,
             const std::string& on_error, std::optional<int64_t> max_documents) {
            return self.encode_files(
                files_options(paths, json_keys, input_format, on_error, max_documents), threads,
                dtype);
          },
          nb::arg("paths"), nb::arg("json_keys") = std::vector<std::string>{"text"},
          nb::arg("threads") = nb::none(), nb::arg("dtype") = "int32",
          nb::arg("input_format") = "auto", nb::arg("on_error") = "fail",
          nb::arg("max_documents") = nb::none(),
          nb::sig(
              "def encode_files(self, paths: str | os.PathLike[str] | collections.abc.Iterable[str "
              "| os.PathLike[str]], json_keys: collections.abc.Sequence[str] = ('text',), threads: "
              "int | None = None, dtype: numpy.typing.DTypeLike = 'int32', input_format: "
              "typing.Literal['auto', 'json', 'csv', 'txt'] = 'auto', on_error: "
              "typing.Literal['fail', 'skip'] = 'fail', max_documents: int | None = None) -> "
              "tuple[numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[numpy.int64]]"),
          R"(The ids of the texts of files, in their order: (ids, offsets) as encode_batch().

paths: files, folders and patterns as preprocess_data's --input takes them: JSON lines and arrays,
CSV, plain text, Parquet and Arrow, compressed or not. The texts of several json_keys follow one
another for each document. on_error="skip" leaves invalid lines out, with a UserWarning.
max_documents: how many documents to read, by one thread.

Raises CorruptionError for an invalid line (FILE: line L, byte B: ...), NotFoundError for a missing
file or key, IoError.)")
      .def("decode", &PythonTokenizer::decode, nb::arg("ids"),
           nb::sig("def decode(self, ids: collections.abc.Iterable[int] | numpy.typing.ArrayLike) "
                   "-> str"),
           R"(The text of ids: an iterable of int, or an array of integers with one dimension.

Bytes that are not UTF-8 become U+FFFD. Raises OutOfRangeError for an id outside the vocabulary,
TypeError for what is not an integer.)")
      .def(
          "decode_stream",
          [](const nb::object& self, nb::handle ids) {
            return nb::cast(new Pieces(self, ids), nb::rv_policy::take_ownership);
          },
          nb::arg("ids"),
          nb::sig("def decode_stream(self, ids: collections.abc.Iterable[int]) -> "
                  "collections.abc.Iterator[str]"),
          R"(The text of ids while they are generated: an iterator over pieces of complete characters.

The pieces joined are decode(ids). Raises as decode(), once the piece is asked for.)")
      .def("token_bytes", &token_bytes, nb::arg("id"),
           nb::sig("def token_bytes(self, id: int) -> bytes | None"),
           R"(The bytes that a token adds to a text, which need not be complete characters.

None for an id below the largest that is not a token. Raises OutOfRangeError.)")
      .def_prop_ro(
          "vocab_size", [](const PythonTokenizer& self) { return self.get().vocab_size(); },
          "Number of tokens, without the model's padding.")
      .def_prop_ro(
          "max_id", [](const PythonTokenizer& self) { return self.get().max_id(); },
          "The largest id that encode() can give.")
      .def_prop_ro(
          "eod", [](const PythonTokenizer& self) { return self.get().eod(); },
          "Id of the end-of-document token; None where the vocabulary has none.")
      .def_prop_ro(
          "bos", [](const PythonTokenizer& self) { return self.get().bos(); },
          "Id of the token that begins a text, or None.")
      .def_prop_ro(
          "pad", [](const PythonTokenizer& self) { return self.get().pad(); },
          "Id of the token that fills up a sequence, or None.")
      .def_prop_ro("special_tokens", &special_tokens,
                   nb::sig("def special_tokens(self) -> dict[str, int]"),
                   "The special tokens and their ids, ascending.")
      .def_prop_ro(
          "identity", [](const PythonTokenizer& self) { return self.get().identity(); },
          R"(32 hexadecimal digits, equal for tokenizers whose ids mean the same.

None for NullTokenizer, whose ids can mean anything.)")
      .def_prop_ro(
          "warnings", [](const PythonTokenizer& self) { return self.get().warnings(); },
          "Warnings about the tokenizer's files, one line each; usually empty.")
      .def_prop_ro("tokenizer_type", &PythonTokenizer::type, "Megatron-LM's name of its class.")
      .def("__repr__",
           [](const PythonTokenizer& self) {
             return fmt::format("<libmeg.Tokenizer {}, {} tokens>", self.type(),
                                self.get().vocab_size());
           })
      .def("__getstate__", &PythonTokenizer::options,
           nb::sig("def __getstate__(self) -> dict[str, object]"))
      .def(
          "__setstate__",
          [](PythonTokenizer& self, nb::dict options) {
            new (&self) PythonTokenizer(std::move(options));
          },
          nb::sig("def __setstate__(self, options: dict[str, object], /) -> None"));
}

}  // namespace meg::python
