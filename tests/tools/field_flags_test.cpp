#include "tools/common/field_flags.h"

#include <gtest/gtest.h>

namespace meg::tools {
namespace {

TEST(FieldFlags, NamesFlagsOfOurOwnAsTheirFields) {
  EXPECT_EQ(with_flags("a.jsonl: `min_tokens`: expected at least 0, found -1"),
            "a.jsonl: --min-tokens: expected at least 0, found -1");
}

TEST(FieldFlags, SpellsMegatronsFlagsAsTheArgumentTable) {
  EXPECT_EQ(with_flags("`override_opt_param_scheduler`: cannot be combined with `lr`"),
            "--override-opt_param-scheduler: cannot be combined with --lr");
}

TEST(FieldFlags, PrefersTheFlagWithTheNameOfItsField) {
  EXPECT_EQ(with_flags("`calculate_per_token_loss` `no_load_optim`"),
            "--calculate-per-token-loss --no-load-optim");
}

TEST(FieldFlags, NamesTheFlagThatGivesAFieldItsValue) {
  EXPECT_EQ(with_flags("`check_for_nan_in_loss_and_grad = false` continues"),
            "--no-check-for-nan-in-loss-and-grad continues");
  EXPECT_EQ(with_flags("`keep_optimizer = false`, `check_masters = false`"),
            "--no-optim, --no-master-check");
}

TEST(FieldFlags, LeavesOtherTextInMarksAlone) {
  for (const char* text : {"", "none", "one ` mark", "install it with `python -m nltk`", "``",
                           "`A`", "`a b`: ", "`aws configure --format env` prints them"}) {
    EXPECT_EQ(with_flags(text), text);
  }
  EXPECT_EQ(with_flags("`a b` and `seed`"), "`a b` and --seed");
}

}  // namespace
}  // namespace meg::tools
