#include "libmeg/evaluation/scoring.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/nn/small_model.h"

namespace meg::evaluation {
namespace {

using test::small_config;
using test::small_model;
using ::testing::HasSubstr;

constexpr int64_t kVocabSize = 19;  ///< Of 24 rows.

/// Sequences of 2 to 13 tokens with every number of targets.
class Scoring : public ::testing::Test {
 protected:
  Scoring() : model_(small_model(small_config())) {
    model_.set_training(false);
    for (int32_t size = 2; size <= 13; ++size) {
      std::vector<int32_t>& tokens = tokens_.emplace_back();
      for (int32_t i = 0; i < size; ++i) tokens.push_back((size * 7 + i * i) % kVocabSize);
    }
    for (const std::vector<int32_t>& tokens : tokens_) {
      for (int64_t targets = 1; targets < static_cast<int64_t>(tokens.size()); targets += 3) {
        sequences_.push_back({.tokens = tokens, .targets = targets});
      }
    }
  }

  /// One sequence by itself, from all of its logits.
  SequenceScore plainly(const ScoringSequence& sequence) {
    const c10::InferenceMode without_gradients;
    const std::vector<int64_t> ids(sequence.tokens.begin(), sequence.tokens.end());
    const at::Tensor tokens = at::tensor(ids).unsqueeze(0);
    const auto size = static_cast<int64_t>(ids.size());
    const auto logits = model_.logits({.tokens = tokens.narrow(1, 0, size - 1)});
    EXPECT_TRUE(logits.has_value());
    const at::Tensor logprobs =
        logits->select(0, 0).narrow(1, 0, kVocabSize).to(at::kDouble).log_softmax(1);
    SequenceScore score;
    for (int64_t place = size - sequence.targets; place < size; ++place) {
      const at::Tensor row = logprobs[place - 1];
      score.predicted.push_back(static_cast<int32_t>(row.argmax().item<int64_t>()));
      score.logprobs.push_back(row[ids[static_cast<size_t>(place)]].item<float>());
    }
    return score;
  }

  Result<std::vector<SequenceScore>> score(const ScoringOptions& options) {
    return score_sequences(model_, sequences_, options);
  }

  std::vector<std::vector<int32_t>> tokens_;
  std::vector<ScoringSequence> sequences_;
  nn::GptModel model_;
};

TEST_F(Scoring, GivesEachSequenceWhatItGetsAlone) {
  for (const int64_t batch_tokens : {1, 30, 100, 0}) {
    ScoringOptions options;
    options.vocab_size = kVocabSize;
    options.batch_tokens = batch_tokens;
    const auto scores = score(options);
    ASSERT_TRUE(scores.has_value()) << scores.error().message();
    ASSERT_EQ(scores->size(), sequences_.size());
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const SequenceScore expected = plainly(sequences_[i]);
      EXPECT_EQ((*scores)[i].predicted, expected.predicted);
      ASSERT_EQ((*scores)[i].logprobs.size(), expected.logprobs.size());
      for (size_t k = 0; k < expected.logprobs.size(); ++k) {
        EXPECT_NEAR((*scores)[i].logprobs[k], expected.logprobs[k], 1e-5);
      }
    }
  }
}

TEST_F(Scoring, IdsThatPadTheVocabularyTakeNoPart) {
  // The padding's rows answer loudest.
  for (const nn::GptParameter& parameter : model_.parameters()) {
    if (parameter.name == "embedding.word_embeddings.weight") {
      const c10::NoGradGuard without_gradients;
      at::Tensor table = parameter.tensor;
      table.narrow(0, kVocabSize, 24 - kVocabSize).mul_(100);
    }
  }
  ScoringOptions options;
  options.vocab_size = kVocabSize;
  const auto narrow = score(options);
  ASSERT_TRUE(narrow.has_value()) << narrow.error().message();
  bool padding_wins_otherwise = false;
  options.vocab_size = 24;
  const auto wide = score(options);
  ASSERT_TRUE(wide.has_value()) << wide.error().message();
  for (size_t i = 0; i < narrow->size(); ++i) {
    for (size_t k = 0; k < (*narrow)[i].predicted.size(); ++k) {
      EXPECT_LT((*narrow)[i].predicted[k], kVocabSize);
      EXPECT_GE((*narrow)[i].logprobs[k], (*wide)[i].logprobs[k]);
      padding_wins_otherwise |= (*wide)[i].predicted[k] >= kVocabSize;
    }
  }
  EXPECT_TRUE(padding_wins_otherwise);
}

TEST_F(Scoring, BatchesHoldEverySequenceOnceLongestFirst) {
  ScoringOptions options;
  options.batch_tokens = 40;
  std::vector<size_t> seen;
  size_t last = 1000;
  for (const std::vector<size_t>& batch : scoring_batches(sequences_, options)) {
    EXPECT_TRUE(batch.size() == 1 ||
                batch.size() * (sequences_[batch.front()].tokens.size() - 1) <= 40);
    for (const size_t i : batch) {
      EXPECT_LE(sequences_[i].tokens.size(), last);
      last = sequences_[i].tokens.size();
      seen.push_back(i);
    }
  }
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), sequences_.size());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
}

TEST_F(Scoring, AMicroBatchSizeCountsSequencesAndBatchesAreReported) {
  ScoringOptions options;
  options.vocab_size = kVocabSize;
  options.batch_sequences = 8;
  std::vector<int64_t> told;
  options.on_batch = [&](int64_t batch) { told.push_back(batch); };
  ASSERT_TRUE(score(options).has_value());
  ASSERT_EQ(told.size(), (sequences_.size() + 7) / 8);
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i], static_cast<int64_t>(i));
}

TEST_F(Scoring, WhatCannotBeScoredIsRefused) {
  ScoringOptions options;
  options.vocab_size = 25;
  EXPECT_THAT(score(options).status().message(), HasSubstr("vocab_size: expected 1 to 24"));
  options.vocab_size = kVocabSize;
  sequences_[3].targets = 0;
  EXPECT_THAT(score(options).status().message(), HasSubstr("sequence 3: expected 1 to"));
  sequences_[3].targets = static_cast<int64_t>(sequences_[3].tokens.size());
  EXPECT_THAT(score(options).status().message(), HasSubstr("sequence 3: expected 1 to"));
  sequences_[3].targets = 1;
  const std::vector<int32_t> strange = {1, 99};
  sequences_.push_back({.tokens = strange, .targets = 1});
  EXPECT_THAT(score(options).status().message(), HasSubstr("expected ids 0 to 18, found 99"));
}

TEST_F(Scoring, NoSequencesGiveNoScores) {
  ScoringOptions options;
  options.vocab_size = kVocabSize;
  const auto scores = score_sequences(model_, {}, options);
  ASSERT_TRUE(scores.has_value());
  EXPECT_TRUE(scores->empty());
}

TEST_F(Scoring, LogitsOfRowsAreTheModelsLogits) {
  const c10::InferenceMode without_gradients;
  const at::Tensor tokens = test::small_tokens(model_.config());
  const auto logits = model_.logits({.tokens = tokens});
  const auto hidden = model_.hidden_states({.tokens = tokens});
  ASSERT_TRUE(logits.has_value() && hidden.has_value());
  const auto rows = model_.logits_of(hidden->flatten(0, 1), kVocabSize);
  ASSERT_TRUE(rows.has_value()) << rows.error().message();
  EXPECT_LT((*rows - logits->flatten(0, 1)).abs().max().item<float>(), 1e-5);
  EXPECT_THAT(model_.logits_of(*hidden, kVocabSize).status().message(),
              HasSubstr("hidden_rows: expected"));
}

TEST_F(Scoring, RowsWhoseLogitsAreNotFiniteBeginWithNan) {
  const c10::InferenceMode without_gradients;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor embeddings = model_.parameters()[0].tensor;
  ASSERT_EQ(embeddings.size(0), model_.config().padded_vocab_size);
  const at::Tensor hidden = at::randn({40, model_.config().hidden_size});
  const at::Tensor well = *model_.logits_of(hidden, kVocabSize);
  EXPECT_TRUE(at::equal(well, at::matmul(hidden, embeddings.t())) ||
              at::allclose(well, at::matmul(hidden, embeddings.t()), 1e-5, 1e-5));
  // A row of one infinity gives half of the positions -infinity alone, which no softmax shows.
  for (const float value : {std::nanf(""), kInfinity, -kInfinity}) {
    for (const int64_t token : {int64_t{0}, int64_t{5}, kVocabSize - 1, kVocabSize}) {
      const at::Tensor kept = embeddings[token].clone();
      embeddings[token][3] = value;
      const at::Tensor rows = *model_.logits_of(hidden, kVocabSize);
      EXPECT_EQ(rows.select(1, 0).isnan().all().item<bool>(), token < kVocabSize) << token;
      embeddings[token].copy_(kept);
    }
  }
}

TEST_F(Scoring, ATargetWhoseLogitsAreNotFiniteIsAnErrorByTextAndToken) {
  {
    const c10::NoGradGuard without_gradients;
    model_.parameters()[0].tensor[2].fill_(std::numeric_limits<float>::infinity());
  }
  const std::vector<int32_t> tokens = {1, 3, 4, 5};
  const std::vector<ScoringSequence> sequences = {
      {.tokens = tokens, .targets = 2, .text = 7, .first_token = 10}};
  ScoringOptions options;
  options.vocab_size = kVocabSize;
  EXPECT_THAT(score_sequences(model_, sequences, options).status().message(),
              HasSubstr("text 7: token 12: expected finite logits, found NaN or infinity"));
}

}  // namespace
}  // namespace meg::evaluation
