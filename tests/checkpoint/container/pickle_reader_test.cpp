#include "libmeg/checkpoint/container/pickle/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"
#include "tests/checkpoint/container/data_pkl.h"
#include "tests/shared_data.h"

namespace meg::checkpoint {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

/// What a pickle says: its description, or "CODE: message".
std::string reading_of(std::string_view pickle) {
  PickleGraph graph;
  const auto stream = read_pickle(test::bytes_of(pickle), "p", &graph);
  if (!stream) return stream.error().message();
  EXPECT_EQ(stream->size, pickle.size());
  return graph.describe(stream->root, 100000);
}

StatusCode code_of(std::string_view pickle) {
  PickleGraph graph;
  return read_pickle(test::bytes_of(pickle), "p", &graph).status().code();
}

struct Reading {
  std::string pickle;
  std::string value;
};

TEST(PickleReader, KnowsEveryOpcode) {
  const Reading readings[] = {
      {"N.", "None"},
      {"\x88.", "True"},
      {"\x89.", "False"},
      {"I00\n.", "False"},
      {"I01\n.", "True"},
      {"I-12\n.", "-12"},
      {"I+7\n.", "7"},
      {"I0\n.", "0"},
      {"I99999999999999999999\n.", "99999999999999999999"},
      {"L-5L\n.", "-5"},
      {"L5\n.", "5"},
      {"J\xff\xff\xff\xff.", "-1"},
      {"K\xff.", "255"},
      {"M\xff\xff.", "65535"},
      {"\x8a\x00."s, "0"},
      {"\x8a\x01\x80.", "-128"},
      {"\x8a\x02\xff\x00."s, "255"},
      {"\x8a\x0a\x01\0\0\0\0\0\0\0\0\0."s, "1"},
      {"\x8a\x09\0\0\0\0\0\0\0\0\x01."s, "18446744073709551616"},
      {"\x8a\x09\0\0\0\0\0\0\0\0\xff."s, "-18446744073709551616"},
      {"\x8b\x01\0\0\0\x7f."s, "127"},
      {"F1.5\n.", "1.5"},
      {"F-inf\n.", "-inf"},
      {"Fnan\n.", "nan"},
      {"F1e999\n.", "inf"},
      {"F1e-999\n.", "0.0"},
      {"G\x3f\xf0\0\0\0\0\0\0."s, "1.0"},
      {"S'a\\x41\\101\\n\\q'\n.", "'aAA\\n\\\\q'"},
      {"S\"it's\"\n.", "'it\\'s'"},
      {"S'\\xff'\n.", "b'\\xff'"},
      {"T\x02\0\0\0ab."s, "'ab'"},
      {"U\x01z.", "'z'"},
      {"U\x01\xff.", "b'\\xff'"},
      {"Vx\\u00e9\\U0001f600\\\\u0041\xe9\n.", "'x\\xe9\\U0001f600\\\\\\\\u0041\\xe9'"},
      {"X\x01\0\0\0a."s, "'a'"},
      {"X\x03\0\0\0\xed\xa0\x80."s, "'\\ud800'"},
      {"\x8c\x01"s + "a.", "'a'"},
      {"\x8d\x01\0\0\0\0\0\0\0a."s, "'a'"},
      {"B\x01\0\0\0\xff."s, "b'\\xff'"},
      {"C\x01\xff.", "b'\\xff'"},
      {"\x8e\x01\0\0\0\0\0\0\0a."s, "b'a'"},
      {"\x96\x01\0\0\0\0\0\0\0a."s, "bytearray(b'a')"},
      {").", "()"},
      {"K\1\x85.", "(1,)"},
      {"K\1K\2\x86.", "(1, 2)"},
      {"K\1K\2K\3\x87.", "(1, 2, 3)"},
      {"(K\1K\2t.", "(1, 2)"},
      {"(t.", "()"},
      {"].", "[]"},
      {"(K\1l.", "[1]"},
      {"]K\1a.", "[1]"},
      {"](K\1K\2e.", "[1, 2]"},
      {"}.", "{}"},
      {"(K\1K\2d.", "{1: 2}"},
      {"}K\1K\2s.", "{1: 2}"},
      {"}(K\1K\2K\3K\4u.", "{1: 2, 3: 4}"},
      {"\x8f.", "set()"},
      {"\x8f(K\1\x90.", "{1}"},
      {"(K\1\x91.", "frozenset({1})"},
      {"cm\nC\n.", "m.C"},
      {"\x8c\x01m\x8c\x01"s + "C\x93.", "m.C"},
      {"cm\nC\nK\1\x85R.", "C(1)"},
      {"cm\nC\n)\x81.", "C()"},
      {"cm\nC\n)}K\1K\2s\x92.", "C()"},
      {"(K\1im\nC\n.", "C(1)"},
      {"(cm\nC\nK\1o.", "C(1)"},
      {"cm\nC\n)R}K\1K\2sb.", "C({1: 2})"},
      {"cm\nC\n)R(K\1K\2e.", "C([1, 2])"},
      {"cm\nC\n)RK\1K\2s.", "C({1: 2})"},
      {"K\1Q.", "<storage>"},
      {"K\1K\0020.", "1"},
      {"K\1(K\2K\0031.", "1"},
      {"K\1(0.", "1"},
      {"]2a.", "[[...]]"},
      {"]q\0(h\0K\1e."s, "[[...], 1]"},
      {"]r\1\2\3\4j\1\2\3\4a.", "[[...]]"},
      {"]p7\ng7\na.", "[[...]]"},
      {"]\x94h\0a."s, "[[...]]"},
      {"K\1q\0K\2q\0h\0\x86."s, "(2, 2)"},
      {"\x80\5\x95\2\0\0\0\0\0\0\0K\1."s, "1"},
  };
  for (const Reading& reading : readings) {
    EXPECT_EQ(reading_of(reading.pickle), reading.value) << testing::PrintToString(reading.pickle);
  }
}

struct Damage {
  std::string pickle;
  std::string message;
};

TEST(PickleReader, SaysWhereAPickleIsDamaged) {
  const Damage damages[] = {
      {"", "p: byte 0: opcode: expected 1 bytes, found 0"},
      {"K\1", "p: byte 2: opcode: expected 1 bytes, found 0"},
      {".", "p: byte 0: STOP: expected a value on the stack, found none"},
      {"(.", "p: byte 1: STOP: expected a value on the stack, found a MARK"},
      {"\xfe.", "p: byte 0: opcode: expected one of protocols 0 to 5, found 0xfe"},
      {"J\1\2", "p: byte 0: BININT: expected 4 bytes, found 2"},
      {"G\1", "p: byte 0: BINFLOAT: expected 8 bytes, found 1"},
      {"I12", "p: byte 0: INT: expected 3 bytes, found 2"},
      {"I\n.", "integer: expected decimal digits, found \"\""},
      {"I1x\n.", "integer: expected decimal digits, found \"1x\""},
      {"L--1L\n.", "integer: expected decimal digits, found \"--1\""},
      {"Fone\n.", "FLOAT: expected a number, found \"one\""},
      {"F1.5 \n.", "FLOAT: expected a number, found \"1.5 \""},
      {"S'a\n.", "STRING: expected text in quotes, found \"'a\""},
      {"S'\n.", "STRING: expected text in quotes, found \"'\""},
      {"S'\\x4'\n.", "text: expected a whole escape"},
      {"S'\\'\n.", "text: expected a whole escape"},
      {"V\\u12\n.", "text: expected a whole escape"},
      {"V\\U00110000\n.", "text: expected a whole escape"},
      {"X\xff\xff\xff\xffz", "p: byte 0: BINUNICODE: expected 4294967295 bytes, found 1"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xffz", "expected 18446744073709551615 bytes, found 1"},
      {"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "expected 9223372036854775807 bytes, found 0"},
      {"\x96\xff\xff\xff\xff\xff\xff\xff\x7f", "expected 9223372036854775807 bytes, found 0"},
      {"\x8b\xff\xff\xff\xff", "LONG4: expected 4294967295 bytes, found 0"},
      {"X\1\0\0\0\xff."s, "text: expected UTF-8, found"},
      {"X\2\0\0\0\xc0\x80."s, "text: expected UTF-8, found"},
      {"cm\xff\nC\n.", "text: expected UTF-8, found"},
      {"cm\nC", "GLOBAL: expected 2 bytes, found 1"},
      {"c\nC\n.", "GLOBAL: expected a module and a name, found an empty one"},
      {"K\1K\2\x93.", "STACK_GLOBAL: expected a str, found an int"},
      {"K\1\x86.", "TUPLE2: expected 2 values on the stack, found 1"},
      {"K\1(K\2\x86.", "TUPLE2: expected 2 values on the stack, found 1"},
      {"t.", "a tuple: expected a MARK on the stack, found none"},
      {"e.", "APPENDS: expected a MARK on the stack, found none"},
      {"(e.", "APPENDS: expected a value on the stack, found none"},
      {"1.", "POP_MARK: expected a MARK on the stack, found none"},
      {"0.", "POP: expected a value on the stack, found none"},
      {"2.", "DUP: expected a value on the stack, found none"},
      {"(K\1d.", "DICT: expected keys and values, found 1 items"},
      {"}(K\1u.", "SETITEMS: expected keys and values, found 1 items"},
      {"K\1K\2a.", "APPEND: expected a list, found an int"},
      {"}K\2a.", "APPEND: expected a list, found a dict"},
      {"cm\nC\nK\1a.", "APPEND: expected a list, found a global"},
      {"]K\1K\2s.", "SETITEM: expected a dict, found a list"},
      {"](K\1\x90.", "ADDITEMS: expected a set, found a list"},
      {"cm\nC\n]R.", "REDUCE: expected a tuple of arguments, found a list"},
      {"cm\nC\n)]\x92.", "NEWOBJ_EX: expected a dict of keywords, found a list"},
      {"(o.", "OBJ: expected a class after MARK, found nothing"},
      {"}}b.", "BUILD: expected an object, found a dict"},
      {"K\1}b.", "BUILD: expected an object, found an int"},
      {"cm\nC\n}b.", "BUILD: expected an object, found a global"},
      {"h\7.", "GET: expected a memo entry 7, found none"},
      {"g-1\n.", "GET: expected a memo index below 2^32, found \"-1\""},
      {"Np99999999999\n.", "PUT: expected a memo index below 2^32, found \"99999999999\""},
      {"q\1.", "PUT: expected a value on the stack, found none"},
      {"(q\1.", "PUT: expected a value on the stack, found a MARK"},
      {"\x94.", "PUT: expected a value on the stack, found none"},
      {"\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.", "FRAME: expected 9223372036854775807 bytes"},
  };
  for (const Damage& damage : damages) {
    EXPECT_EQ(code_of(damage.pickle), StatusCode::kCorruption) << damage.message;
    EXPECT_THAT(reading_of(damage.pickle), HasSubstr(damage.message));
  }
}

TEST(PickleReader, RefusesByNameWhatItDoesNotKeep) {
  const Damage refusals[] = {
      {"\x80\6N.", "PROTO: expected at most 5, found 6"},
      {"P5\n.", "PERSID: expected binary persistent ids, found one as text"},
      {"\x82\1.", "EXT: expected classes by name, found an extension code"},
      {"\x83\1\1.", "EXT: "},
      {"\x84\1\1\1\1.", "EXT: "},
      {"\x97.", "NEXT_BUFFER: expected all data in the pickle, found an out-of-band buffer"},
      {"N\x98.", "NEXT_BUFFER: "},
      {"cm\nC\n)Rq\0cm\nset\nh\0}\x86R0."s, "found a call of m.set for it"},
  };
  for (const Damage& refusal : refusals) {
    EXPECT_EQ(code_of(refusal.pickle), StatusCode::kUnsupported) << refusal.message;
    EXPECT_THAT(reading_of(refusal.pickle), HasSubstr(refusal.message));
  }
}

std::string nested_lists(int levels) {
  const auto count = static_cast<size_t>(levels);
  return std::string(count, ']') + std::string(count - 1, 'a') + ".";
}

std::string nested_tuples(size_t levels) { return 'N' + std::string(levels, '\x85') + '.'; }

TEST(PickleReader, NestsToTheLimitAndNoFurther) {
  EXPECT_EQ(code_of(nested_lists(PickleGraph::kMaxDepth + 1)), StatusCode::kOk);
  EXPECT_EQ(code_of(nested_lists(PickleGraph::kMaxDepth + 2)), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(nested_tuples(1000)), StatusCode::kOk);
  EXPECT_EQ(code_of(nested_tuples(1001)), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(std::string(1000000, '(')), StatusCode::kResourceExhausted);
}

TEST(PickleReader, LimitsValuesStackAndDigits) {
  EXPECT_EQ(code_of(std::string(kMaxPickleNodes + 1, 'N') + "."), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of("N" + std::string(kMaxPickleNodes, '2') + "."), StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of("L" + std::string(4300, '9') + "L\n."), StatusCode::kOk);
  EXPECT_EQ(code_of("L" + std::string(4301, '9') + "L\n."), StatusCode::kResourceExhausted);
}

TEST(PickleReader, EndsAtTheByteLimit) {
  std::string pickle = "B\xff\xff\xff\x03";
  pickle.append(0x3ffffff, 'x').append(".");
  EXPECT_THAT(reading_of(pickle), HasSubstr("expected a pickle of at most 67108864 bytes"));
}

TEST(PickleReader, PaysForMemoEntriesNotForTheirNumbers) {
  EXPECT_EQ(reading_of("]p2147483647\ng2147483647\na."), "[[...]]");
  EXPECT_EQ(reading_of("Nr\xff\xff\xff\xffj\xff\xff\xff\xff\x86."), "(None, None)");
}

TEST(PickleReader, ReadsOnePickleOfARow) {
  const std::string row = "K\1.K\2.";
  PickleGraph graph;
  const auto first = read_pickle(test::bytes_of(row), "p", &graph);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size, 3u);
  const auto second = read_pickle(test::bytes_of(row).subspan(first->size), "p", &graph);
  ASSERT_TRUE(second);
  EXPECT_EQ(graph.as_int(first->root), 1);
  EXPECT_EQ(graph.as_int(second->root), 2);
}

TEST(PickleReader, KeepsCallsThatAHostilePickleDrops) {
  PickleGraph graph;
  ASSERT_TRUE(read_pickle(test::bytes_of("cos\nsystem\nU\1x\x85R0N."), "p", &graph));
  EXPECT_TRUE(graph.is_global(0, "os", "system"));
}

/// What reading the data.pkl of each hostile file must give: a value, or (starting "p: ") an error.
const std::map<std::string, std::string>& hostile_readings() {
  static const std::map<std::string, std::string> kReadings = {
      {"bad_no_pickle_stop", "p: byte 157: opcode: expected 1 bytes, found 0"},
      {"bad_pickle_underflow", "p: byte 2: REDUCE: expected a value on the stack, found none"},
      {"bad_pickle_mark", "p: byte 2: a tuple: expected a MARK on the stack, found none"},
      {"bad_pickle_memo", "p: byte 2: GET: expected a memo entry 2147483647, found none"},
      {"bad_pickle_memo_big_put", "{}"},
      {"bad_pickle_len", "p: byte 2: BINUNICODE: expected 2147483647 bytes, found 4"},
      {"bad_pickle_len8", "p: byte 2: BINUNICODE8: expected 9223372036854775807 bytes, found 4"},
      {"bad_pickle_frame", "p: byte 2: FRAME: expected 9223372036854775807 bytes, found 2"},
      {"bad_pickle_opcode", "p: byte 2: opcode: expected one of protocols 0 to 5, found 0xfe"},
      {"bad_pickle_deep", "p: byte 201002: nesting: expected at most 1000 levels, found more"},
      {"bad_pickle_cycle", "{'self': {...}}"},
      {"evil_os_system", "system('touch EVIL_WAS_EXECUTED')"},
      {"evil_builtins_eval", "p: byte 39: opcode: expected one of protocols 0 to 5, found 0x20"},
      {"evil_getattr_chain", "getattr(__import__('os'), 'system')('touch EVIL_WAS_EXECUTED')"},
      {"evil_inst", "system('touch EVIL_WAS_EXECUTED')"},
      {"evil_stack_global", "system('touch EVIL_WAS_EXECUTED')"},
      {"evil_build", "Namespace({'__reduce_ex_': os.system})"},
      {"evil_ext", "p: byte 2: EXT: expected classes by name, found an extension code"},
      {"evil_persid0", "p: byte 0: PERSID: expected binary persistent ids, found one as text"},
      {"evil_persid_odd", "<storage>"},
      {"evil_rebuild_args", "_rebuild_tensor_v2()"},
      {"evil_rebuild_types", "_rebuild_tensor_v2('a', None, None, None, False, None)"},
  };
  return kReadings;
}

TEST(PickleReader, RefusesOrKeepsHostilePicklesAndRunsNone) {
  MEG_REQUIRE_SHARED("oracle/checkpoints/evil");
  for (const auto& [name, expected] : hostile_readings()) {
    const std::string path = test::shared_path("oracle/checkpoints/evil/" + name + ".pt");
    const auto pickle = test::find_data_pkl(test::read_whole_file(path));
    ASSERT_TRUE(pickle) << path;
    PickleGraph graph;
    const auto stream = read_pickle(test::bytes_of(*pickle), "p", &graph);
    EXPECT_EQ(stream ? graph.describe(stream->root, 1000) : stream.error().message(), expected);
  }
  EXPECT_FALSE(std::filesystem::exists("EVIL_WAS_EXECUTED"));
}

}  // namespace
}  // namespace meg::checkpoint
