#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

#include <gtest/gtest.h>

#include <string>

#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "tests/checkpoint/container/data_pkl.h"

namespace meg::checkpoint {
namespace {

using namespace std::string_literals;

PickleId read(std::string_view pickle, PickleGraph* graph) {
  const auto stream = read_pickle(test::bytes_of(pickle), "p", graph);
  EXPECT_TRUE(stream);
  return stream ? stream->root : 0;
}

TEST(PickleGraph, FindsTheLastValueOfARepeatedKey) {
  PickleGraph graph;
  const PickleId dict = read("}(U\1aK\1U\1bK\2U\1aK\3u.", &graph);
  EXPECT_EQ(graph.as_int(*graph.find(dict, "a")), 3);
  EXPECT_EQ(graph.as_int(*graph.find(dict, "b")), 2);
  EXPECT_FALSE(graph.find(dict, "c"));
}

TEST(PickleGraph, FindsInDictSubclassesToo) {
  PickleGraph graph;
  const PickleId dict = read("ccollections\nOrderedDict\n)RU\1aK\1s.", &graph);
  EXPECT_EQ(graph.as_int(*graph.find(dict, "a")), 1);
  EXPECT_EQ(graph.class_name(dict), "collections.OrderedDict");
}

TEST(PickleGraph, FindsAttributesOfObjects) {
  PickleGraph graph;
  const PickleId object = read("cargparse\nNamespace\n)\x81}U\1aK\1sb.", &graph);
  EXPECT_EQ(graph.as_int(*graph.attribute(object, "a")), 1);
  EXPECT_FALSE(graph.attribute(object, "b"));
  const PickleId slots = read("cm\nC\n)\x81}U\1aK\1s}U\1bK\2s\206b."s, &graph);
  EXPECT_EQ(graph.as_int(*graph.attribute(slots, "a")), 1);
}

TEST(PickleGraph, FindsNothingInOddNodes) {
  PickleGraph graph;
  for (const char* pickle : {"N.", "].", "cm\nC\n.", "cm\nC\n)R.", "cm\nC\n)RNb."}) {
    const PickleId id = read(pickle, &graph);
    EXPECT_FALSE(graph.find(id, "a"));
    EXPECT_FALSE(graph.attribute(id, "a"));
    EXPECT_TRUE(graph.pairs(id).empty());
    EXPECT_FALSE(graph.as_number(id));
    EXPECT_FALSE(graph.as_string(id));
    EXPECT_FALSE(graph.as_bytes(id));
  }
  EXPECT_EQ(graph.class_name(read("K\1\x85.", &graph)), "");
}

TEST(PickleGraph, SeesBytesInTheCallsThatStandForThem) {
  PickleGraph graph;
  EXPECT_EQ(graph.as_bytes(read("C\1\xff.", &graph)), "\xff");
  EXPECT_EQ(graph.as_bytes(read("c_codecs\nencode\nX\2\0\0\0\xc3\xbfU\6latin1\x86R."s, &graph)),
            "\xff");
  EXPECT_EQ(graph.as_bytes(read("c__builtin__\nbytes\n)R.", &graph)), "");
  EXPECT_FALSE(graph.as_bytes(read("c_codecs\nencode\nX\2\0\0\0\xc4\x80U\6latin1\x86R."s, &graph)));
  EXPECT_FALSE(graph.as_bytes(read("c_codecs\nencode\nU\1aU\5utf16\x86R.", &graph)));
}

TEST(PickleGraph, DescribesWithinTheLimit) {
  PickleGraph graph;
  const PickleId list = read("](K\1K\2K\3e.", &graph);
  EXPECT_EQ(graph.describe(list), "[1, 2, 3]");
  EXPECT_EQ(graph.describe(list, 9), "[1, 2, 3]");
  EXPECT_EQ(graph.describe(list, 8), "[1, 2, 3...");
}

TEST(PickleGraph, DescribesABombInNoTime) {
  std::string bomb = "]q\0"s;
  for (int level = 0; level < 100; ++level) bomb += "](h\0h\0h\0h\0h\0h\0eq\0"s;
  PickleGraph graph;
  EXPECT_EQ(graph.describe(read(bomb + ".", &graph), 200).size(), 203u);
}

TEST(PickleGraph, DescribesWithoutControlCharacters) {
  PickleGraph graph;
  EXPECT_EQ(graph.describe(graph.add_string("\x1b[31m\xc2\x9b\xe2\x80\xae'")),
            "'\\x1b[31m\\x9b\\u202e\\''");
}

std::vector<std::byte> copied(std::string_view pickle) {
  PickleGraph from, to;
  const PickleId root = read(pickle, &from);
  PickleCopier copier(from, to);
  const auto copy = copier.copy(root);
  EXPECT_TRUE(copy);
  const auto bytes = write_pickle(to, *copy);
  EXPECT_EQ(bytes.value(), write_pickle(from, root).value());
  return bytes.value();
}

TEST(PickleCopier, CopiesValuesThatAreWrittenAlike) {
  for (const char* pickle : {"N.", "cm\nC\n)R(K\1K\2eK\3K\4s}K\5K\6sb.", "]2a.", "]q\1h\1\x86."}) {
    EXPECT_FALSE(copied(pickle).empty());
  }
}

TEST(PickleCopier, KeepsWhatIsSharedAcrossCalls) {
  PickleGraph from, to;
  const PickleId pair = read("]q\1h\1\x86.", &from);
  PickleCopier copier(from, to);
  const PickleId first = *copier.copy(from.node(pair).children[0]);
  const PickleId whole = *copier.copy(pair);
  EXPECT_EQ(to.node(whole).children[0], first);
  EXPECT_EQ(to.node(whole).children[1], first);
}

TEST(PickleCopier, TakesReplacements) {
  PickleGraph from, to;
  const PickleId list = read("](K\1K\2e.", &from);
  PickleCopier copier(from, to);
  copier.replace(from.node(list).children[0], to.add_int(7));
  EXPECT_EQ(to.describe(*copier.copy(list)), "[7, 2]");
}

}  // namespace
}  // namespace meg::checkpoint
