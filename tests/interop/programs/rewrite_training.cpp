/// rewrite_training LOAD SAVE {legacy|mcore} [FLAG ...]
/// Reads every rank of a checkpoint as a trainer would and saves it again. Flags: no-optim (the
/// checkpoint has none), rerun (with core's rerun_state_machine).
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libmeg/checkpoint/training/write_training_checkpoint.h"
#include "tests/checkpoint/training/training_cases.h"

int main(int count, char** arguments) {
  using meg::model::NameFamily;
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) return 2;
  const auto has = [&](const char* flag) {
    return std::find(words.begin() + 3, words.end(), flag) != words.end();
  };
  const meg::checkpoint::MegatronCheckpoint checkpoint = meg::test::open_or_fail(words[0]);
  std::vector<meg::checkpoint::TrainingState> ranks;
  for (const meg::checkpoint::RankFile& file : checkpoint.files()) {
    ranks.push_back(meg::test::state_of_rank(checkpoint, {.no_load_optim = has("no-optim"),
                                                          .tensor_rank = file.tensor_rank,
                                                          .pipeline_rank = file.pipeline_rank}));
  }
  const meg::checkpoint::TrainingFileOptions options{
      .names = words[2] == "legacy" ? meg::model::NameFamily::kLegacy
                                    : meg::model::NameFamily::kMcoreLocal,
      .rerun_state_machine = has("rerun")};
  const meg::Status status = meg::checkpoint::write_training_checkpoint(words[1], ranks, options);
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
