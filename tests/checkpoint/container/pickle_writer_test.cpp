#include "libmeg/checkpoint/container/pickle/pickle_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"
#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "tests/checkpoint/container/data_pkl.h"

namespace meg::checkpoint {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

std::string written(const PickleGraph& graph, PickleId root) {
  const auto bytes = write_pickle(graph, root);
  if (!bytes) return bytes.error().message();
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

/// The pickle that protocol 2 has for the value of another, without PROTO and STOP.
std::string rewritten(std::string_view pickle) {
  PickleGraph graph;
  const auto stream = read_pickle(test::bytes_of(pickle), "p", &graph);
  EXPECT_TRUE(stream);
  const std::string bytes = stream ? written(graph, stream->root) : "";
  return bytes.starts_with("\x80\x02") ? bytes.substr(2, bytes.size() - 3) : bytes;
}

struct Rewriting {
  std::string pickle;
  std::string bytes;
};

// The expectations are CPython's; tests/interop/containers/ has many more.
TEST(PickleWriter, ChoosesTheOpcodesOfPython) {
  const Rewriting rewritings[] = {
      {"I0\n.", "K\0"s},
      {"I256\n.", "M\0\1"s},
      {"I65536\n.", "J\0\0\1\0"s},
      {"I-1\n.", "J\xff\xff\xff\xff"},
      {"I2147483648\n.", "\x8a\5\0\0\0\x80\0"s},
      {"I-2147483649\n.", "\x8a\5\xff\xff\xff\x7f\xff"},
      {"F1.0\n.", "G\x3f\xf0\0\0\0\0\0\0"s},
      {"U\1a.", "X\1\0\0\0aq\0"s},
      {"(t.", ")"},
      {"(K\1K\2K\3t.", "K\1K\2K\3\x87q\0"s},
      {"(K\1K\2K\3K\4t.", "(K\1K\2K\3K\4tq\0"s},
      {"(K\1l.", "]q\0K\1a"s},
      {"(K\1K\2l.", "]q\0(K\1K\2e"s},
      {"(K\1K\2d.", "}q\0K\1K\2s"s},
      {"]q\0h\0a."s, "]q\0h\0a"s},
      {"(K\1im\nC\n.", "cm\nC\nq\0K\1\x85q\1Rq\2"s},
      {"B\1\0\0\0\xff."s,
       "c_codecs\nencode\nq\0X\2\0\0\0\xc3\xbfq\1X\6\0\0\0latin1q\2\x86q\3Rq\4"s},
      {"C\0."s, "c__builtin__\nbytes\nq\0)Rq\1"s},
      {"\x96\0\0\0\0\0\0\0\0."s, "c__builtin__\nbytearray\nq\0)Rq\1"s},
      {"\x8f(K\1\x90.", "c__builtin__\nset\nq\0]q\1K\1a\x85q\2Rq\3"s},
      {"(\x91.", "c__builtin__\nfrozenset\nq\0]q\1\x85q\2Rq\3"s},
      {"\x8c\1m\x8c\3A.B\x93.", "c__builtin__\ngetattr\nq\0cm\nA\nq\1X\1\0\0\0Bq\2\x86q\3Rq\4"s},
      {"cm\nA.B\n.", "cm\nA.B\nq\0"s},
      {"K\1Q.", "K\1Q"},
  };
  for (const Rewriting& rewriting : rewritings) {
    EXPECT_EQ(rewritten(rewriting.pickle), rewriting.bytes)
        << testing::PrintToString(rewriting.pickle);
  }
}

TEST(PickleWriter, FetchesSharedValuesByShortAndLongNumbers) {
  PickleGraph graph;
  std::vector<PickleId> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(graph.add_string("t"));
  texts.push_back(texts[0]);
  texts.push_back(texts[299]);
  const std::string bytes = written(graph, graph.add_list(texts));
  EXPECT_TRUE(bytes.ends_with("r,\1\0\0h\1j,\1\0\0e."s));
}

TEST(PickleWriter, RefusesWhatProtocolTwoCannotSay) {
  EXPECT_THAT(rewritten("cm\nC\n)}\x92."), HasSubstr("m.C: expected an object made without"));
  PickleGraph graph;
  const PickleId name = graph.add_global("m\n", "C");
  EXPECT_EQ(write_pickle(graph, name).status().code(), StatusCode::kUnsupported);
}

TEST(PickleWriter, EndsWhereAGraphDoesNot) {
  PickleGraph graph;
  const PickleId tuple = graph.add_tuple({graph.add_none()});
  graph.mutable_node(tuple).children[0] = tuple;
  EXPECT_EQ(write_pickle(graph, tuple).status().code(), StatusCode::kCorruption);
}

TEST(PickleWriter, WritesTheDeepestPickleThatIsRead) {
  const std::string deepest = "N" + std::string(1000, '\x85') + ".";
  EXPECT_TRUE(rewritten(deepest).starts_with("N\x85"));
}

TEST(PickleWriter, EndsAtTheByteLimit) {
  PickleGraph graph;
  const PickleId text = graph.add_string(std::string(kMaxPickleBytes, 'x'));
  EXPECT_EQ(write_pickle(graph, graph.add_tuple({text, graph.add_none()})).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace meg::checkpoint
