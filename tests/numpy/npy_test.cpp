#include "libmeg/numpy/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::numpy {
namespace {

std::string bytes_of(std::span<const int32_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// A file of version 1.0 with any dictionary, padded as numpy does.
std::string file_with(std::string dictionary, std::string_view elements) {
  dictionary.resize((10 + dictionary.size() + 64) / 64 * 64 - 11, ' ');
  dictionary += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  return file.append(dictionary).append(elements);
}

class Npy : public testing::Test {
 protected:
  Result<NpyFile> open(std::string_view bytes) {
    test::write_file(path_, bytes);
    return NpyFile::open(path_);
  }

  Result<NpyFile> open_dictionary(const std::string& dictionary, std::string_view elements) {
    return open(file_with(dictionary, elements));
  }

  /// The dictionary's array of 12 bytes is refused with this code.
  void expect_refused(const std::string& dictionary, StatusCode code) {
    const auto npy = open_dictionary(dictionary, "abcdefghijkl");
    ASSERT_FALSE(npy.has_value()) << dictionary;
    EXPECT_EQ(npy.error().code(), code) << dictionary << ": " << npy.error().message();
    EXPECT_TRUE(npy.error().message().starts_with(path_)) << npy.error().message();
    EXPECT_EQ(npy.error().message().find('\n'), std::string::npos) << npy.error().message();
  }

  test::TempFolder folder_;
  std::string path_ = folder_.path("a.npy");
};

TEST_F(Npy, ReadsWhatTheWriterWrites) {
  const std::vector<int32_t> values = {1, -2, 3, 4, 5, 6};
  const std::array<int64_t, 2> shape = {3, 2};
  const auto header = npy_header(DType::kInt32, shape);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->size() % 64, 0u);
  const auto npy = open(*header + bytes_of(values));
  ASSERT_TRUE(npy.has_value()) << npy.error().message();
  EXPECT_EQ(npy->dtype(), DType::kInt32);
  EXPECT_EQ(npy->shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(npy->size(), 6);
  const auto found = npy->values<int32_t>();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(std::equal(found->begin(), found->end(), values.begin(), values.end()));
}

TEST_F(Npy, ValuesStayWhereTheFileIsMoved) {
  const std::vector<int32_t> values = {7, 8};
  const std::array<int64_t, 1> shape = {2};
  auto npy = open(*npy_header(DType::kInt32, shape) + bytes_of(values));
  ASSERT_TRUE(npy.has_value());
  const auto before = *npy->values<int32_t>();
  const NpyFile moved = std::move(*npy);
  EXPECT_EQ(moved.values<int32_t>()->data(), before.data());
  EXPECT_EQ(before[1], 8);
}

TEST_F(Npy, ReadsEveryTypeThatTheWriterKnows) {
  for (const DType dtype :
       {DType::kBool, DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt16, DType::kUint32,
        DType::kInt32, DType::kUint64, DType::kInt64, DType::kFloat16, DType::kFloat32,
        DType::kFloat64, DType::kComplex64, DType::kComplex128}) {
    const std::array<int64_t, 1> shape = {3};
    const auto header = npy_header(dtype, shape);
    ASSERT_TRUE(header.has_value());
    const auto npy = open(*header + std::string(3 * static_cast<size_t>(dtype_size(dtype)), '\1'));
    ASSERT_TRUE(npy.has_value()) << npy.error().message();
    EXPECT_EQ(npy->dtype(), dtype);
  }
}

TEST_F(Npy, ValuesOfAnotherTypeAreAnError) {
  const auto npy =
      open_dictionary("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }", "abcd");
  ASSERT_TRUE(npy.has_value());
  EXPECT_TRUE(npy->values<int32_t>().has_value());
  EXPECT_EQ(npy->values<uint32_t>().error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(npy->values<int64_t>().error().code(), StatusCode::kInvalidArgument);
}

TEST_F(Npy, ReadsKeysInAnyOrderAndSpacing) {
  for (const char* dictionary : {
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }",
           "{'descr':'<i4','fortran_order':False,'shape':(3,)}",
           "  { \"shape\" : ( 3 , ) , 'fortran_order' : False ,\n\t'descr' : \"<i4\" }  ",
           "{'shape': (1, 3), 'descr': '<i4', 'fortran_order': False}",
           "{'shape': (1, 3, ), 'descr': '<i4', 'fortran_order': False}",
           "{'shape': (3,), 'descr': '<i4', 'fortran_order': True}",
       }) {
    const auto npy = open_dictionary(dictionary, "abcdefghijkl");
    ASSERT_TRUE(npy.has_value()) << dictionary << ": " << npy.error().message();
    EXPECT_EQ(npy->size(), 3) << dictionary;
  }
}

TEST_F(Npy, ReadsScalarsAndEmptyArrays) {
  const auto scalar =
      open_dictionary("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", "abcd");
  ASSERT_TRUE(scalar.has_value()) << scalar.error().message();
  EXPECT_EQ(scalar->size(), 1);
  for (const char* shape : {"(0,)", "(0, 2)", "(9223372036854775807, 9223372036854775807, 0)"}) {
    const auto empty = open_dictionary(
        fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': {}, }}", shape), "");
    ASSERT_TRUE(empty.has_value()) << empty.error().message();
    EXPECT_EQ(empty->size(), 0);
    EXPECT_TRUE(empty->values<int32_t>()->empty());
  }
}

TEST_F(Npy, ReadsVersionsTwoAndThree) {
  for (const char version : {'\2', '\3'}) {
    std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    dictionary.resize(116, ' ');
    std::string file("\x93NUMPY", 6);
    file += version;
    file.append(1, '\0').append("\x74\0\0\0", 4).append(dictionary).append("abc");
    const auto npy = open(file);
    ASSERT_TRUE(npy.has_value()) << npy.error().message();
    EXPECT_EQ((*npy->values<uint8_t>())[2], 'c');
  }
}

TEST_F(Npy, RefusesWhatIsNoPlainArray) {
  for (const char* descr : {"'|O'", "'>i4'", "'=i4'", "'<U3'", "'|S12'", "'<M8[s]'", "'|V12'",
                            "'i4'", "'|i4'", "''", "'<i3'", "[('a', '<i4')]", "('<i4', (3,))"}) {
    expect_refused(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (3,), }}", descr),
                   StatusCode::kUnsupported);
  }
  expect_refused("{'descr': '<i4', 'fortran_order': True, 'shape': (3, 1), }",
                 StatusCode::kUnsupported);
}

TEST_F(Npy, RefusesDamagedDictionaries) {
  for (const char* dictionary : {
           "",
           "{",
           "}",
           "{}",
           "[]",
           "{'descr'",
           "{'descr': '<i4'",
           "{'descr': '<i4', 'fortran_order': False}",
           "{'descr': '<i4', 'shape': (3,)}",
           "{'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} x",
           "{'descr': '<i4' 'fortran_order': False, 'shape': (3,)}",
           "{, 'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': 0, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': false, 'shape': (3,)}",
           "{'descr': '\\x3ci4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': <i4, 'fortran_order': False, 'shape': (3,)}",
           "{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': 3}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': [3]}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3 1)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (-3, -1)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (-0, 3)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (03,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (00, 3)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (+3,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3.0,)}",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
       }) {
    expect_refused(dictionary, StatusCode::kCorruption);
  }
}

TEST_F(Npy, RefusesShapesThatTheFileDoesNotHold) {
  for (const char* shape : {"(2,)", "(4,)", "()", "(0,)", "(3, 2)", "(4611686018427387904, 4)",
                            "(4294967296, 4294967296)", "(1, 3074457345618258603)",
                            "(9223372036854775807,)", "(4611686018427387907,)"}) {
    expect_refused(fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': {}, }}", shape),
                   StatusCode::kCorruption);
  }
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += "1,";
  expect_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (3," + shape + "), }",
                 StatusCode::kCorruption);
}

TEST_F(Npy, RefusesEveryShorterAndLongerFile) {
  const std::string whole =
      file_with("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", "abcdefghijkl");
  ASSERT_TRUE(open(whole).has_value());
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto npy = open(whole.substr(0, length));
    ASSERT_FALSE(npy.has_value()) << length;
    EXPECT_EQ(npy.error().code(), StatusCode::kCorruption) << npy.error().message();
  }
  EXPECT_FALSE(open(whole + "m").has_value());
}

TEST_F(Npy, NoFlippedBitOfTheHeaderIsReadOutside) {
  const std::string whole =
      file_with("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", "abcdefghijkl");
  for (size_t byte = 0; byte < whole.size() - 12; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      const auto npy = open(damaged);
      // One bit turns '<i4' into '<u4', and a blank into a line's end.
      if (npy.has_value()) {
        EXPECT_EQ(npy->size() * dtype_size(npy->dtype()), 12);
      }
    }
  }
}

TEST_F(Npy, RefusesUnknownVersions) {
  std::string file =
      file_with("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", "abcdefghijkl");
  for (const std::string_view version :
       {std::string_view("\0\0", 2), std::string_view("\4\0", 2), std::string_view("\1\1", 2)}) {
    file.replace(6, 2, version);
    EXPECT_EQ(open(file).error().code(), StatusCode::kUnsupported);
  }
}

TEST_F(Npy, ElementsThatAreNotAlignedAreAnError) {
  std::string file("\x93NUMPY\x01\x00", 8);
  const std::string dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}";
  file.append(1, static_cast<char>(dictionary.size())).append(1, '\0');
  const auto npy = open(file + dictionary + "abcd");
  ASSERT_TRUE(npy.has_value()) << npy.error().message();
  EXPECT_EQ(npy->values<int32_t>().error().code(), StatusCode::kCorruption);
}

TEST_F(Npy, AMissingFileIsNotFound) {
  EXPECT_EQ(NpyFile::open(folder_.path("none.npy")).error().code(), StatusCode::kNotFound);
  EXPECT_FALSE(NpyFile::open(folder_.path()).has_value());
}

}  // namespace
}  // namespace meg::numpy
