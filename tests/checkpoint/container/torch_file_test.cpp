#include "libmeg/checkpoint/container/torch_file/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/checkpoint/container/zip_bytes.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

using test::MemoryFile;
using test::ZipBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> read_all(const TorchFile& file, const TensorView& view) {
  std::vector<T> values(static_cast<size_t>(view.numel()));
  const Status status = file.read_elements(view, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

std::string pickle_text(const PickleGraph& graph, PickleId root) {
  const auto pickle = write_pickle(graph, root);
  EXPECT_TRUE(pickle.has_value());
  return {reinterpret_cast<const char*>(pickle->data()), pickle->size()};
}

/// A tensor call whose parts tests change: float32 [2, 3] over storage 0 of six elements.
struct TensorCall {
  PickleGraph graph;
  std::string module = "torch._utils", function = "_rebuild_tensor_v2";
  std::vector<PickleId> id, arguments;  // of the storage, of the call

  TensorCall() {
    id = {graph.add_string("storage"), graph.add_global("torch", "FloatStorage"),
          graph.add_string("0"), graph.add_string("cpu"), graph.add_int(6)};
    arguments = {
        0, graph.add_int(0), ints({2, 3}), ints({3, 1}), graph.add_bool(false), graph.add_none()};
  }

  PickleId ints(const std::vector<int64_t>& values) {
    std::vector<PickleId> nodes;
    for (const int64_t value : values) nodes.push_back(graph.add_int(value));
    return graph.add_tuple(nodes);
  }

  PickleId make() {
    arguments[0] = graph.add_persistent(graph.add_tuple(id));
    return graph.add_call(PickleCallForm::kReduce, graph.add_global(module, function),
                          graph.add_tuple(arguments));
  }

  std::string pickle() {
    const PickleId root = make();
    return pickle_text(graph, root);
  }
};

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

/// An archive around a pickle, with storage 0.
std::string archive_of(const std::string& pickle, const std::string& storage = bytes_of(kSix),
                       const char* byte_order = nullptr) {
  ZipBytes zip;
  zip.add("archive/data.pkl", pickle);
  if (byte_order != nullptr) zip.add("archive/byteorder", byte_order);
  zip.add("archive/data/0", storage);
  zip.finish();
  return zip.bytes;
}

TEST(TorchFile, ReadsTensorsInRowMajorOrder) {
  TensorCall call;
  call.arguments[2] = call.ints({3, 2});
  call.arguments[3] = call.ints({1, 3});
  const MemoryFile memory(archive_of(call.pickle()));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const TensorView* view = file->tensor(file->root());
  ASSERT_NE(view, nullptr);
  EXPECT_THAT(read_all<float>(*file, *view), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_FALSE(file->view(*view).has_value());
  std::vector<float> middle(3);
  ASSERT_TRUE(file->read_elements(*view, 2, std::as_writable_bytes(std::span(middle))).ok());
  EXPECT_THAT(middle, ElementsAre(2, 5, 3));
}

TEST(TorchFile, GivesContiguousTensorsWithoutACopy) {
  TensorCall call;
  call.arguments[1] = call.graph.add_int(1);
  call.arguments[2] = call.ints({5});
  call.arguments[3] = call.ints({1});
  const MemoryFile memory(archive_of(call.pickle()));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const auto bytes = file->view(*file->tensor(file->root()));
  ASSERT_TRUE(bytes.has_value());
  ASSERT_EQ(bytes->size(), 20u);
  EXPECT_EQ(load_le<float>(bytes->data()), 2);
}

TEST(TorchFile, RefusesReadsOutsideATensorOrStorage) {
  TensorCall call;
  const MemoryFile memory(archive_of(call.pickle()));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const TensorView view = *file->tensor(file->root());
  std::vector<std::byte> bytes(8);
  EXPECT_EQ(file->read_elements(view, 5, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(file->read_elements(view, -1, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(file->read_elements(view, INT64_MAX, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(file->read_elements(view, 0, std::span(bytes).first(7)).code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(file->read_storage(0, 17, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(file->read_storage(0, UINT64_MAX, bytes).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(file->read_storage(0, 16, bytes).ok());
  TensorView beyond = view;
  beyond.offset = 1;
  EXPECT_EQ(file->read_elements(beyond, 0, bytes).code(), StatusCode::kCorruption);
  EXPECT_FALSE(file->view(beyond).has_value());
}

TEST(TorchFile, SwapsTheBytesOfBigEndianFiles) {
  std::string swapped = bytes_of(kSix);
  for (size_t i = 0; i < swapped.size(); i += 4) std::reverse(&swapped[i], &swapped[i] + 4);
  TensorCall call;
  const MemoryFile memory(archive_of(call.pickle(), swapped, "big"));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_TRUE(file->is_byte_swapped());
  const TensorView& view = *file->tensor(file->root());
  EXPECT_EQ(read_all<float>(*file, view), kSix);
  EXPECT_FALSE(file->view(view).has_value());
  std::vector<float> two(2);
  ASSERT_TRUE(file->read_storage(0, 8, std::as_writable_bytes(std::span(two))).ok());
  EXPECT_THAT(two, ElementsAre(3, 4));
  EXPECT_EQ(file->read_storage(0, 6, std::as_writable_bytes(std::span(two))).code(),
            StatusCode::kInvalidArgument);
}

TEST(TorchFile, SwapsTheHalvesOfComplexNumbersApart) {
  std::string swapped = bytes_of(kSix);
  for (size_t i = 0; i < swapped.size(); i += 4) std::reverse(&swapped[i], &swapped[i] + 4);
  TensorCall call;
  call.id[1] = call.graph.add_global("torch", "ComplexFloatStorage");
  call.id[4] = call.graph.add_int(3);
  call.arguments[2] = call.ints({3});
  call.arguments[3] = call.ints({1});
  const MemoryFile memory(archive_of(call.pickle(), swapped, "big"));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const TensorView& view = *file->tensor(file->root());
  std::vector<float> values(6);
  ASSERT_TRUE(file->read_elements(view, 0, std::as_writable_bytes(std::span(values))).ok());
  EXPECT_EQ(values, kSix);
}

TEST(TorchFile, RefusesAnUnknownByteOrder) {
  TensorCall call;
  const MemoryFile memory(archive_of(call.pickle(), bytes_of(kSix), "middle"));
  const auto file = TorchFile::open(memory.path());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(),
              HasSubstr("expected \"little\" or \"big\", found \"middle\""));
}

struct Oddity {
  const char* what;
  std::function<void(TensorCall&)> make;
  StatusCode code;
  const char* message;
};

constexpr int64_t kHuge = int64_t{1} << 62;

const Oddity kOddities[] = {
    {"id with another word", [](TensorCall& c) { c.id[0] = c.graph.add_string("module"); },
     StatusCode::kCorruption, "persistent id"},
    {"id too short", [](TensorCall& c) { c.id.pop_back(); }, StatusCode::kCorruption,
     "persistent id"},
    {"class that is text", [](TensorCall& c) { c.id[1] = c.graph.add_string("FloatStorage"); },
     StatusCode::kCorruption, "class of storages"},
    {"class of another module",
     [](TensorCall& c) { c.id[1] = c.graph.add_global("evil", "FloatStorage"); },
     StatusCode::kUnsupported, "\"evil\".\"FloatStorage\""},
    {"quantized class",
     [](TensorCall& c) { c.id[1] = c.graph.add_global("torch", "QInt8Storage"); },
     StatusCode::kUnsupported, "QInt8Storage"},
    {"key that is a number", [](TensorCall& c) { c.id[2] = c.graph.add_int(0); },
     StatusCode::kCorruption, "persistent id"},
    {"key without an entry", [](TensorCall& c) { c.id[2] = c.graph.add_string("1"); },
     StatusCode::kCorruption, "expected an entry \"archive/data/1\""},
    {"negative elements", [](TensorCall& c) { c.id[4] = c.graph.add_int(-6); },
     StatusCode::kCorruption, "persistent id"},
    {"too many elements", [](TensorCall& c) { c.id[4] = c.graph.add_int(7); },
     StatusCode::kCorruption, "expected 28 bytes, found 24"},
    {"elements that overflow", [](TensorCall& c) { c.id[4] = c.graph.add_int(kHuge); },
     StatusCode::kCorruption, "overflow 64 bits"},
    {"too few arguments", [](TensorCall& c) { c.arguments.resize(5); }, StatusCode::kCorruption,
     "expected 6 arguments, found 5"},
    {"too many arguments", [](TensorCall& c) { c.arguments.resize(8, c.graph.add_none()); },
     StatusCode::kCorruption, "expected 6 arguments, found 8"},
    {"offset that is text", [](TensorCall& c) { c.arguments[1] = c.graph.add_string("0"); },
     StatusCode::kCorruption, "offset: expected an int"},
    {"negative offset", [](TensorCall& c) { c.arguments[1] = c.graph.add_int(-1); },
     StatusCode::kCorruption, "offset of at least 0"},
    {"offset past the end", [](TensorCall& c) { c.arguments[1] = c.graph.add_int(1); },
     StatusCode::kCorruption, "outside its storage"},
    {"shape that is no tuple", [](TensorCall& c) { c.arguments[2] = c.graph.add_int(6); },
     StatusCode::kCorruption, "shape: expected a tuple of ints"},
    {"shape of text",
     [](TensorCall& c) {
       c.arguments[2] = c.graph.add_tuple({c.id[0], c.id[0]});
     },
     StatusCode::kCorruption, "shape: expected a tuple of ints"},
    {"negative shape",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({-2, 3});
     },
     StatusCode::kCorruption, "no negative numbers"},
    {"negative stride",
     [](TensorCall& c) {
       c.arguments[3] = c.ints({3, -1});
     },
     StatusCode::kCorruption, "no negative numbers"},
    {"ranks differ", [](TensorCall& c) { c.arguments[3] = c.ints({1}); }, StatusCode::kCorruption,
     "differ in rank"},
    {"size overflows",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({kHuge, 4});
     },
     StatusCode::kCorruption, "size overflows"},
    {"size overflows beside a zero",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({kHuge, kHuge});
     },
     StatusCode::kCorruption, "size overflows"},
    {"bytes overflow",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({kHuge, 1});
       c.arguments[3] = c.ints({0, 0});
     },
     StatusCode::kCorruption, "size overflows"},
    {"extent overflows",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({4, 4});
       c.arguments[3] = c.ints({kHuge, kHuge});
     },
     StatusCode::kCorruption, "extent overflows"},
    {"extent past the end",
     [](TensorCall& c) {
       c.arguments[3] = c.ints({4, 1});
     },
     StatusCode::kCorruption, "outside its storage"},
    {"one element repeated without end",
     [](TensorCall& c) {
       c.arguments[2] = c.ints({int64_t{1} << 40, 1});
       c.arguments[3] = c.ints({0, 0});
     },
     StatusCode::kCorruption, "repeats too many elements"},
    {"too many dimensions",
     [](TensorCall& c) {
       c.arguments[2] = c.ints(std::vector<int64_t>(65, 1));
       c.arguments[3] = c.arguments[2];
     },
     StatusCode::kUnsupported, "65 dimensions"},
    {"conjugated",
     [](TensorCall& c) {
       c.arguments.push_back(
           c.graph.add_dict({c.graph.add_string("conj"), c.graph.add_bool(true)}));
     },
     StatusCode::kUnsupported, "conj bit"},
    {"v3 without dtype",
     [](TensorCall& c) {
       c.function = "_rebuild_tensor_v3";
       c.arguments.push_back(c.graph.add_none());
     },
     StatusCode::kCorruption, "expected a dtype"},
    {"v3 of a dtype unknown here",
     [](TensorCall& c) {
       c.function = "_rebuild_tensor_v3";
       c.arguments.push_back(c.graph.add_global("torch", "float4_e2m1fn_x2"));
     },
     StatusCode::kUnsupported, "torch.\"float4_e2m1fn_x2\""},
    {"v2 of an untyped storage",
     [](TensorCall& c) {
       c.id[1] = c.graph.add_global("torch.storage", "UntypedStorage");
       c.id[4] = c.graph.add_int(24);
     },
     StatusCode::kCorruption, "names no dtype"},
};

TEST(TorchFile, RefusesOddTensorsByName) {
  for (const Oddity& oddity : kOddities) {
    TensorCall call;
    oddity.make(call);
    const MemoryFile memory(archive_of(call.pickle()));
    const auto file = TorchFile::open(memory.path());
    ASSERT_FALSE(file.has_value()) << oddity.what;
    EXPECT_EQ(file.error().code(), oddity.code) << oddity.what;
    EXPECT_THAT(file.error().message(), HasSubstr(oddity.message)) << oddity.what;
  }
}

TEST(TorchFile, KeepsCallsOfOtherModulesOpaque) {
  for (const char* module : {"torch._utils2", "evil", "torch"}) {
    TensorCall call;
    call.module = module;
    const MemoryFile memory(archive_of(call.pickle()));
    const auto file = TorchFile::open(memory.path());
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->tensor(file->root()), nullptr);
    EXPECT_EQ(file->storages().size(), 1u);
  }
}

TEST(TorchFile, ListsAParameterOnceAndKnowsBothItsNodes) {
  TensorCall call;
  const PickleId tensor = call.make();
  const PickleId parameter = call.graph.add_call(
      PickleCallForm::kReduce, call.graph.add_global("torch._utils", "_rebuild_parameter"),
      call.graph.add_tuple({tensor, call.graph.add_bool(true), call.graph.add_none()}));
  const MemoryFile memory(archive_of(pickle_text(call.graph, parameter)));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_THAT(file->tensor_nodes(), ElementsAre(file->root()));
  ASSERT_NE(file->tensor(file->root()), nullptr);
  EXPECT_THAT(file->tensor(file->root())->shape, ElementsAre(2, 3));
}

TEST(TorchFile, RefusesOneKeyOfTwoSizes) {
  TensorCall call;
  const PickleId first = call.make();
  call.id[4] = call.graph.add_int(5);
  const PickleId root = call.graph.add_tuple({first, call.make()});
  const MemoryFile memory(archive_of(pickle_text(call.graph, root)));
  const auto file = TorchFile::open(memory.path());
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(), HasSubstr("as 24 bytes of float32 and as 20 bytes"));
}

TEST(TorchFile, SharesStoragesOfOneKey) {
  TensorCall call;
  const PickleId first = call.make();
  const PickleId root = call.graph.add_tuple({first, call.make()});
  const MemoryFile memory(archive_of(pickle_text(call.graph, root)));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_EQ(file->storages().size(), 1u);
  EXPECT_EQ(file->tensor_nodes().size(), 2u);
}

// ---- Whole files of our own writer ----

std::string written_file() {
  const test::TempFolder folder;
  TorchFileContent content;
  const std::string six = bytes_of(kSix);
  const auto bytes = std::as_bytes(std::span(six));
  const int w = content.add_storage(DType::kFloat32, 24, {bytes.begin(), bytes.end()});
  const int h = content.add_storage(DType::kBFloat16, 4, {bytes.begin(), bytes.begin() + 4});
  PickleGraph& graph = content.graph();
  content.root =
      graph.add_dict({graph.add_string("w"), content.add_tensor(w, {2, 3}), graph.add_string("t"),
                      content.add_tensor_view(w, 0, {3, 2}, {1, 3}), graph.add_string("h"),
                      content.add_tensor(h, {2})});
  auto layout = lay_out(content, "small");
  EXPECT_TRUE(layout.has_value());
  auto writer = TorchFileWriter::create(folder.path("small.pt"), content, *layout);
  EXPECT_TRUE(writer.has_value());
  EXPECT_TRUE(writer->finish().ok());
  return test::read_file(folder.path("small.pt"));
}

/// Everything a reader sees of a file that is whole; empty where it is refused.
std::string everything_in(const std::string& bytes) {
  const MemoryFile memory(bytes);
  const auto file = TorchFile::open(memory.path());
  if (!file.has_value() || !file->check_crcs().ok()) return "";
  std::string all = file->graph().describe(file->root(), 10'000);
  for (const PickleId id : file->tensor_nodes()) {
    const TensorView& view = *file->tensor(id);
    std::string content(static_cast<size_t>(view.bytes()), '\0');
    EXPECT_TRUE(file->read_elements(view, 0, std::as_writable_bytes(std::span(content))).ok());
    all += shape_text(view.shape) + content;
  }
  return all;
}

TEST(TorchFile, DoesNotOpenAPickleOfAnotherCrcUnlessAskedTo) {
  std::string damaged = written_file();
  const size_t key = damaged.find("\x01\0\0\0t", 0, 5);
  ASSERT_NE(key, std::string::npos);
  damaged[key + 4] = 'u';
  const MemoryFile memory(damaged);
  const auto refused = TorchFile::open(memory.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kCorruption);
  EXPECT_THAT(refused.error().message(), HasSubstr("data.pkl"));
  EXPECT_THAT(refused.error().message(), HasSubstr("CRC-32"));
  const auto file =
      TorchFile::open(memory.path(), {.budget = nullptr, .check_metadata_crcs = false});
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_TRUE(file->graph().find(file->root(), "u").has_value());
  EXPECT_EQ(file->check_metadata_crcs().code(), StatusCode::kCorruption);
}

TEST(TorchFile, NoFlippedBytePassesForOtherContent) {
  const std::string whole = written_file();
  const std::string expected = everything_in(whole);
  ASSERT_FALSE(expected.empty());
  size_t seen = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char flip : {'\x01', '\x80', '\xFF'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const std::string found = everything_in(damaged);
      if (found.empty()) ++seen;
      ASSERT_TRUE(found.empty() || found == expected) << "byte " << i;
    }
  }
  EXPECT_GT(seen, whole.size());  // padding and times hold no content
}

TEST(TorchFile, RefusesEveryTruncation) {
  const std::string whole = written_file();
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(everything_in(whole.substr(0, size)), "") << size;
  }
}

TEST(TorchFile, ChecksCrcsOnlyWhenAsked) {
  TensorCall call;
  std::string bytes = archive_of(call.pickle());
  bytes[bytes.find(bytes_of(kSix))] ^= 1;
  const MemoryFile memory(bytes);
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  const Status status = file->check_crcs();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("entry \"archive/data/0\": CRC-32: expected"));
}

TEST(TorchFile, DoesNotCheckTheZeroCrcsOfTorchWithoutCrcs) {
  ZipBytes zip;
  zip.computes_crcs = false;
  TensorCall call;
  zip.add("archive/data.pkl", call.pickle());
  zip.add("archive/data/0", bytes_of(kSix));
  zip.finish();
  const MemoryFile memory(zip.bytes);
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_FALSE(file->has_crcs());
  EXPECT_FALSE(file->storages()[0].crc.has_value());
  EXPECT_TRUE(file->check_crcs().ok());
  EXPECT_TRUE(file->check_crc(0).ok());
}

TEST(TorchFile, StopsCheckingWhenTold) {
  TensorCall call;
  const MemoryFile memory(archive_of(call.pickle()));
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_EQ(file->check_crcs([](const Progress&) { return false; }).code(), StatusCode::kCancelled);
  int64_t last = 0;
  EXPECT_TRUE(file->check_crcs([&](const Progress& progress) {
                    last = progress.bytes;
                    return progress.bytes <= progress.total_bytes;
                  })
                  .ok());
  EXPECT_GT(last, 24);
}

TEST(TorchFile, SaysWhatAFileIsNot) {
  EXPECT_EQ(TorchFile::open("/nowhere/file.pt").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(TorchFile::open("/tmp").error().code(), StatusCode::kIoError);
  const MemoryFile text("{\"a\": 1}");
  EXPECT_THAT(TorchFile::open(text.path()).error().message(), HasSubstr("file of torch.save"));
  std::string tar(600, '\0');
  tar.replace(257, 5, "ustar");
  const MemoryFile archive(tar);
  EXPECT_EQ(TorchFile::open(archive.path()).error().code(), StatusCode::kUnsupported);
}

// ---- The legacy form ----

struct LegacyFile {
  TensorCall call;
  std::string magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  int64_t protocol = 1001;
  std::vector<std::string> keys = {"0"};
  int64_t count = 6;
  std::string data = bytes_of(kSix);

  std::string bytes() {
    PickleGraph graph;
    PickleNode number;
    number.kind = PickleKind::kBigInt;
    number.text = magic;
    std::string out = pickle_text(graph, graph.add(number));
    out += pickle_text(graph, graph.add_int(protocol));
    out += pickle_text(graph,
                       graph.add_dict({graph.add_string("little_endian"), graph.add_bool(true)}));
    out += call.pickle();
    std::vector<PickleId> nodes;
    for (const std::string& key : keys) nodes.push_back(graph.add_string(key));
    out += pickle_text(graph, graph.add_list(nodes));
    return out + bytes_of(std::vector<int64_t>{count}) + data;
  }
};

TEST(LegacyTorchFile, IsReadWithoutCrcs) {
  LegacyFile legacy;
  const MemoryFile memory(legacy.bytes());
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_TRUE(file->is_legacy());
  EXPECT_FALSE(file->storages()[0].crc.has_value());
  EXPECT_TRUE(file->check_crcs().ok());
  EXPECT_EQ(read_all<float>(*file, *file->tensor(file->root())), kSix);
}

TEST(LegacyTorchFile, HonoursStoragesThatAreViews) {
  LegacyFile legacy;
  TensorCall& call = legacy.call;
  call.id.push_back(call.graph.add_tuple(
      {call.graph.add_string("view"), call.graph.add_int(2), call.graph.add_int(3)}));
  call.arguments[1] = call.graph.add_int(1);
  call.arguments[2] = call.ints({2});
  call.arguments[3] = call.ints({1});
  const MemoryFile memory(legacy.bytes());
  const auto file = TorchFile::open(memory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message();
  EXPECT_THAT(read_all<float>(*file, *file->tensor(file->root())), ElementsAre(4, 5));

  call.arguments[2] = call.ints({3});  // inside the storage, not inside its view
  const MemoryFile beyond(legacy.bytes());
  EXPECT_THAT(TorchFile::open(beyond.path()).error().message(), HasSubstr("outside its storage"));
}

TEST(LegacyTorchFile, RefusesDamage) {
  const std::pair<std::function<void(LegacyFile&)>, const char*> damages[] = {
      {[](LegacyFile& f) { f.magic[0] = 'm'; }, "magic number"},
      {[](LegacyFile& f) { f.protocol = 1002; }, "protocol version: expected 1001, found 1002"},
      {[](LegacyFile& f) { f.keys = {"1"}; }, "list of storage keys"},
      {[](LegacyFile& f) {
         f.keys = {"0", "0"};
       },
       "list of storage keys"},
      {[](LegacyFile& f) { f.keys = {}; }, "expected it in the list"},
      {[](LegacyFile& f) { f.count = 7; }, "expected 6 elements, found 7"},
      {[](LegacyFile& f) { f.count = -1; }, "expected 6 elements"},
      {[](LegacyFile& f) { f.data.pop_back(); }, "expected 24 bytes, found 23"},
      {[](LegacyFile& f) {
         f.call.id.push_back(f.call.ints({0, 4, 3}));
       },
       "are outside its 6 elements"},
      {[](LegacyFile& f) {
         f.call.id.push_back(f.call.ints({0, 4}));
       },
       "its view"},
  };
  for (const auto& [damage, message] : damages) {
    LegacyFile legacy;
    damage(legacy);
    const MemoryFile memory(legacy.bytes());
    const auto file = TorchFile::open(memory.path());
    ASSERT_FALSE(file.has_value()) << message;
    EXPECT_THAT(file.error().message(), HasSubstr(message));
  }
}

TEST(LegacyTorchFile, RefusesEveryTruncation) {
  LegacyFile legacy;
  const std::string whole = legacy.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const MemoryFile memory(whole.substr(0, size));
    ASSERT_FALSE(TorchFile::open(memory.path()).has_value()) << size;
  }
}

}  // namespace
}  // namespace meg::checkpoint
