#include "libmeg/cleaning/duplicates/clusters.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "tests/temp_folder.h"

namespace meg::cleaning {
namespace {

Clusters::Found found_by(KeptDuplicate kept, const std::string& path, size_t bytes) {
  constexpr uint32_t kDocuments = 20'000;
  std::mt19937 random(7);
  Clusters clusters(kept, path, bytes);
  for (uint32_t i = 0; i < kDocuments; i += random() % 2 == 0 ? 1 : 2) {
    const DocumentFacts facts{.text_bytes = static_cast<int64_t>(random() % 100),
                              .key_value = static_cast<double>(random() % 100)};
    EXPECT_TRUE(clusters.add_facts(i, facts).ok());
  }
  EXPECT_TRUE(clusters.begin(kDocuments).ok());
  std::uniform_int_distribution<uint32_t> draw(0, kDocuments - 1);
  for (int i = 0; i < 15'000; ++i) {
    const uint32_t a = draw(random);
    clusters.join(a, draw(random));
  }
  auto found = clusters.find();
  EXPECT_TRUE(found.has_value());
  return std::move(*found);
}

TEST(Clusters, AreTheSameInMemoryAndInTemporaryFiles) {
  const test::TempFolder folder;
  for (const KeptDuplicate kept : {KeptDuplicate::kRoot, KeptDuplicate::kFirst,
                                   KeptDuplicate::kLongest, KeptDuplicate::kLowest}) {
    const Clusters::Found expected = found_by(kept, "", 0);
    EXPECT_GT(expected.clusters, 1000);
    for (const size_t bytes : {0, 1000, 50'000}) {
      const Clusters::Found found = found_by(kept, folder.path("documents"), bytes);
      EXPECT_EQ(found.removed, expected.removed);
      EXPECT_EQ(found.clusters, expected.clusters);
      ASSERT_EQ(found.largest.size(), expected.largest.size());
      for (size_t i = 0; i < found.largest.size(); ++i) {
        EXPECT_EQ(found.largest[i].documents, expected.largest[i].documents);
        EXPECT_EQ(found.largest[i].kept, expected.largest[i].kept);
        EXPECT_EQ(found.largest[i].removed, expected.largest[i].removed);
      }
    }
  }
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(Clusters, NameTheFileThatHasNoRoom) {
  Clusters clusters(KeptDuplicate::kRoot, "/none/documents", 1000);
  EXPECT_TRUE(clusters.begin(250).ok());
  EXPECT_EQ(clusters.begin(251).message(), "/none/documents: No such file or directory");
}

}  // namespace
}  // namespace meg::cleaning
