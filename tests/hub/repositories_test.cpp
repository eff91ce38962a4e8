#include "libmeg/hub/repositories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libmeg/hub/folder_state.h"
#include "tests/temp_folder.h"

namespace meg::hub {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RepositoriesTest : public testing::Test {
 protected:
  RepositoriesTest() : root_(fs::canonical(folder_.path())) {}

  std::string path(const std::string& name) const { return (root_ / name).string(); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }

  void write_iteration(const std::string& run, const std::string& name) const {
    write(run + "/" + name + "/mp_rank_00/model_optim_rng.pt", "x");
  }

  void write_run(const std::string& run) const {
    write_iteration(run, "iter_0000100");
    write(run + "/latest_checkpointed_iteration.txt", "100");
  }

  std::vector<std::string> ids(const std::string& root) const {
    std::vector<std::string> found;
    const RepositoryList list = *find_repositories(root);
    for (const Repository& one : list.repositories) found.push_back(one.id);
    return found;
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> found;
    const RepositoryList list = *find_repositories(root_);
    for (const Unserved& one : list.unserved) {
      found.push_back(fs::path(one.path).lexically_relative(root_).string() + ": " + one.reason);
    }
    return found;
  }

  RevisionList revisions(const std::string& run) const {
    return *list_revisions(root_, {"x/y", path(run), true});
  }

  static std::vector<std::string> names(const RevisionList& list) {
    std::vector<std::string> found;
    for (const Revision& one : list.revisions) found.push_back(one.name);
    return found;
  }

  test::TempFolder folder_;
  fs::path root_;
};

TEST_F(RepositoriesTest, IdsAreTheNamesOfTheRunAndTheFolderAbove) {
  write_run("gpt/run1");
  EXPECT_THAT(ids(root_), ElementsAre("gpt/run1"));
  EXPECT_THAT(ids(path("gpt")), ElementsAre("gpt/run1"));
  EXPECT_THAT(ids(path("gpt/run1")), ElementsAre("gpt/run1"));
}

TEST_F(RepositoriesTest, DeeperFoldersAreJoined) {
  write_run("a/b/c/d");
  write_run("a/b2");
  EXPECT_THAT(ids(root_), ElementsAre("a/b.c.d", "a/b2"));
}

TEST_F(RepositoriesTest, TwoOfOneIdAreNotServed) {
  write_run("a/b/c");
  write_run("a/b.c");
  EXPECT_THAT(ids(root_), IsEmpty());
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("its id a/b.c is also that of"),
                                      HasSubstr("its id a/b.c is also that of")));
}

TEST_F(RepositoriesTest, NamesThatHuggingFaceDoesNotAllowAreNotServed) {
  for (const char* name : {"a/with space", "a/b--c", "a/b..c", "a/-b", "a/b.", "a/b.git",
                           "a/gr\xc3\xbc\xc3\x9f", "api/models"}) {
    write_run(name);
  }
  write_run("a/" + std::string(100, 'x'));
  EXPECT_THAT(ids(root_), IsEmpty());
  EXPECT_EQ(problems().size(), 9);
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("found \"a/with space\"")));
}

TEST_F(RepositoriesTest, LinksToFoldersAndHiddenFoldersAreLeftOut) {
  write_run("a/run");
  write_run("a/.hidden");
  fs::create_directory_symlink(root_, path("a/loop"));
  EXPECT_THAT(ids(root_), ElementsAre("a/run"));
}

TEST_F(RepositoriesTest, ABrokenModelIsNamed) {
  write("a/model/latest", "global_step5");
  EXPECT_THAT(ids(root_), IsEmpty());
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("a/model: ")));
}

TEST_F(RepositoriesTest, MainIsTheTrackersIteration) {
  write_run("run");
  write_iteration("run", "iter_0000050");
  const RevisionList list = revisions("run");
  EXPECT_THAT(names(list), ElementsAre("iter_0000050", "iter_0000100"));
  EXPECT_EQ(list.main, "iter_0000100");
  EXPECT_EQ(list.find("main")->name, "iter_0000100");
  EXPECT_EQ(list.find("iter_0000051"), nullptr);
  EXPECT_EQ(list.find("../run"), nullptr);
}

TEST_F(RepositoriesTest, ASaveAboveTheTrackerIsNotShown) {
  write_run("run");
  write_iteration("run", "iter_0000150");
  const RevisionList list = revisions("run");
  EXPECT_THAT(names(list), ElementsAre("iter_0000100"));
  EXPECT_THAT(list.unserved[0].reason, HasSubstr("above the tracker's iter_0000100"));
}

TEST_F(RepositoriesTest, WithoutATrackerASaveMustHaveBeenLeftAlone) {
  write_iteration("run", "iter_0000100");
  write_iteration("run", "iter_0000200");
  write_iteration("run", "release");
  EXPECT_THAT(names(revisions("run")), IsEmpty());
  EXPECT_EQ(revisions("run").main, "");
  const auto earlier = fs::file_time_type::clock::now() - std::chrono::minutes(2);
  fs::last_write_time(path("run/iter_0000100/mp_rank_00/model_optim_rng.pt"), earlier);
  EXPECT_THAT(names(revisions("run")), ElementsAre("iter_0000100"));
  EXPECT_EQ(revisions("run").main, "iter_0000100");
}

TEST_F(RepositoriesTest, ATrackerOfNonsenseIsAnError) {
  write_run("run");
  write("run/latest_checkpointed_iteration.txt", "../../etc");
  const auto list = list_revisions(root_, {"x/y", path("run"), true});
  EXPECT_THAT(list.status().message(), HasSubstr("expected an iteration or \"release\""));
}

TEST_F(RepositoriesTest, AReleaseIsARevision) {
  write_iteration("run", "release");
  write("run/latest_checkpointed_iteration.txt", "release");
  EXPECT_THAT(names(revisions("run")), ElementsAre("release"));
  EXPECT_EQ(revisions("run").main, "release");
}

TEST_F(RepositoriesTest, AnIterationThatIsALinkOutOfTheRootIsNotServed) {
  write_run("in/run");
  write_iteration("out", "iter_0000050");
  fs::create_directory_symlink(path("out/iter_0000050"), path("in/run/iter_0000050"));
  const auto list = list_revisions(path("in"), {"x/y", path("in/run"), true});
  EXPECT_THAT(names(*list), ElementsAre("iter_0000100"));
  EXPECT_THAT(list->unserved[0].reason, HasSubstr("leaves the served folder"));
}

TEST_F(RepositoriesTest, TheStateOfAFolderChangesWithEveryFile) {
  write_run("run");
  const std::string folder = path("run/iter_0000100");
  const std::string file = folder + "/mp_rank_00/model_optim_rng.pt";
  const auto digest = [&] { return folder_state(root_, folder)->digest; };
  const std::string first = digest();
  EXPECT_EQ(first.size(), 40);
  EXPECT_EQ(digest(), first);
  // Other bytes of the same length and time, in the same file.
  const auto time = fs::last_write_time(file);
  std::ofstream(file) << "y";
  fs::last_write_time(file, time);
  EXPECT_NE(digest(), first);
  const std::string second = digest();
  std::ofstream(file + ".new") << "y";
  fs::rename(file + ".new", file);
  fs::last_write_time(file, time);
  EXPECT_NE(digest(), second);
}

TEST_F(RepositoriesTest, ALinkOutOfTheRootIsNoPartOfACheckpoint) {
  write_run("in/run");
  write("out/secret", "x");
  const std::string folder = path("in/run/iter_0000100");
  fs::create_directory(folder + "/tokenizer");
  fs::create_symlink(path("out/secret"), folder + "/tokenizer/tokenizer.json");
  EXPECT_THAT(folder_state(path("in"), folder).status().message(),
              HasSubstr("tokenizer.json: expected a link to a file in the served folder"));
  EXPECT_TRUE(folder_state(root_, folder).has_value());
}

}  // namespace
}  // namespace meg::hub
