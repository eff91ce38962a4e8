#include "libmeg/generation/model_engine.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "libmeg/base/cpu.h"
#include "libmeg/generation/generate.h"
#include "libmeg/generation/internal/cached_model.h"
#include "libmeg/generation/internal/sampling.h"
#include "tests/generation/letter_tokenizer.h"
#include "tests/nn/small_model.h"

namespace meg::generation {
namespace {

using test::LetterTokenizer;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Positions for some tokens; three rows of the vocabulary pad it.
model::GptConfig roomy(model::GptConfig config) {
  config.max_position_embeddings = config.seq_length = 40;
  return config;
}

constexpr int64_t kTokens = 21;

struct Served {
  explicit Served(const model::GptConfig& config = roomy(test::small_config()),
                  EngineOptions options = {})
      : model(test::small_model(config)) {
    model.set_training(false);
    auto made = create_generation_engine(model, tokenizer, options);
    EXPECT_TRUE(made.has_value()) << made.status().message();
    engine = std::move(*made);
  }

  serving::GeneratedText text(const serving::GenerationRequest& request) {
    auto texts = generate(*engine, {request});
    EXPECT_TRUE(texts.has_value()) << texts.status().message();
    return std::move(texts->front());
  }

  /// Log probabilities over the true vocabulary after each token, without a cache.
  at::Tensor scores(const std::vector<int32_t>& tokens) {
    const c10::NoGradGuard without_gradients;
    const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(tokens)).to(at::kLong).unsqueeze(0);
    return at::log_softmax((*model.logits({.tokens = ids}))[0].narrow(1, 0, kTokens), 1);
  }

  nn::GptModel model;
  LetterTokenizer tokenizer = LetterTokenizer::numbers(kTokens);
  std::unique_ptr<serving::GenerationEngine> engine;
};

std::vector<serving::GenerationRequest> greedy_requests() {
  std::vector<serving::GenerationRequest> requests;
  for (int32_t i = 0; i < 7; ++i) {
    serving::GenerationRequest request;
    for (int32_t j = 0; j <= i; ++j) request.prompt.push_back((5 * i + 3 * j) % 20);
    request.tokens_to_generate = 20 - 2 * i;
    request.sampling.top_k = 1;
    request.stop.on_eod = false;
    requests.push_back(request);
  }
  return requests;
}

TEST(CachedModelTest, FindsTheMostLikelyTokensOfItsLogits) {
  nn::GptModel model = test::small_model(test::small_config());
  const c10::NoGradGuard without_gradients;
  at::Tensor embeddings = model.parameters()[0].tensor;
  ASSERT_EQ(embeddings.size(0), model.config().padded_vocab_size);
  embeddings[9].copy_(embeddings[4]);  // always as likely
  embeddings[kTokens].mul_(100);       // pads the vocabulary
  auto cached =
      CachedModel::create(*ModelRanks::create(model, {}), kTokens, /*slots=*/1, /*capacity=*/1);
  ASSERT_TRUE(cached.has_value()) << cached.status().message();
  at::Tensor hidden = at::randn({200, model.config().hidden_size});
  hidden[7] = std::numeric_limits<float>::quiet_NaN();
  const auto tokens = cached->most_likely(hidden);
  const auto rows = cached->logits(hidden);
  ASSERT_TRUE(tokens.has_value() && rows.has_value());
  std::set<int32_t> found;
  for (int64_t i = 0; i < rows->size(); ++i) {
    const Result<int32_t>& token = (*tokens)[static_cast<size_t>(i)];
    EXPECT_EQ(token.has_value(), i != 7);
    ASSERT_EQ((*rows)[i].has_value(), i != 7);
    if (i == 7) continue;
    EXPECT_EQ(*token, most_likely(*(*rows)[i])) << i;
    found.insert(*token);
  }
  EXPECT_THAT(found, ::testing::Contains(4));
}

TEST(ModelEngineTest, GreedyTokensAreTheMostLikelyOfWholeForwardPasses) {
  for (const model::GptConfig& config : {test::small_config(), test::small_llama_config()}) {
    Served served(roomy(config), {.max_slots = 3});
    const auto texts = generate(*served.engine, greedy_requests());
    ASSERT_TRUE(texts.has_value()) << texts.status().message();
    for (size_t i = 0; i < texts->size(); ++i) {
      const serving::GenerationRequest request = greedy_requests()[i];
      std::vector<int32_t> wanted = request.prompt;
      for (int64_t made = 0; made < request.tokens_to_generate; ++made) {
        wanted.push_back(served.scores(wanted)[-1].argmax().item<int32_t>());
      }
      EXPECT_EQ((*texts)[i].tokens, wanted);
      EXPECT_EQ((*texts)[i].prompt_size, request.prompt.size());
    }
  }
}

TEST(ModelEngineTest, ATextDoesNotDependOnWhatIsBesideIt) {
  std::vector<serving::GenerationRequest> requests = greedy_requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling = {.temperature = 1.3, .seed = i};
    requests[i].logprobs = true;
  }
  Served alone(roomy(test::small_llama_config()), {.max_slots = 1});
  Served together(roomy(test::small_llama_config()), {.max_slots = 7});
  const auto texts = generate(*together.engine, requests);
  ASSERT_TRUE(texts.has_value()) << texts.status().message();
  for (size_t i = 0; i < requests.size(); ++i) {
    const serving::GeneratedText text = alone.text(requests[i]);
    EXPECT_EQ((*texts)[i].tokens, text.tokens);
    EXPECT_THAT((*texts)[i].logprobs,
                ::testing::Pointwise(::testing::FloatNear(1e-5f), text.logprobs));
  }
}

TEST(ModelEngineTest, TextsComeAndGoBetweenSteps) {
  Served served(roomy(test::small_config()), {.max_slots = 2});
  const std::vector<serving::GenerationRequest> requests = greedy_requests();
  serving::GenerationEngine& engine = *served.engine;
  const int64_t first = *engine.add(requests[0]);
  ASSERT_EQ(engine.step()->size(), 1U);
  const int64_t second = *engine.add(requests[1]);
  EXPECT_FALSE(engine.has_room(requests[2]));
  EXPECT_EQ(engine.add(requests[2]).status().code(), StatusCode::kResourceExhausted);
  ASSERT_EQ(engine.step()->size(), 2U);
  engine.cancel(first);
  EXPECT_EQ(engine.active(), 1);
  const int64_t third = *engine.add(requests[2]);
  std::map<int64_t, serving::GeneratedText> texts;
  while (engine.active() > 0) {
    const auto events = engine.step();
    ASSERT_TRUE(events.has_value());
    for (const serving::GenerationEvent& event : *events) {
      ASSERT_TRUE(event.token.has_value());
      if (event.finished) texts[event.request] = **event.finished;
    }
  }
  EXPECT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[second].tokens, served.text(requests[1]).tokens);
  EXPECT_EQ(texts[third].tokens, served.text(requests[2]).tokens);
  engine.cancel(1000);
  EXPECT_TRUE(engine.step()->empty());
}

TEST(ModelEngineTest, LogProbabilitiesAreThoseOfTheWholeForwardPass) {
  Served served;
  serving::GenerationRequest request{.prompt = {3, 1, 4, 1, 5}, .tokens_to_generate = 9};
  request.stop.on_eod = false;
  request.logprobs = true;
  for (const int64_t count : {9, 0}) {
    request.tokens_to_generate = count;
    const serving::GeneratedText text = served.text(request);
    EXPECT_EQ(static_cast<int64_t>(text.tokens.size()), 5 + count);
    ASSERT_EQ(text.logprobs.size(), text.tokens.size() - 1);
    const at::Tensor scores = served.scores(text.tokens);
    for (size_t i = 0; i < text.logprobs.size(); ++i) {
      EXPECT_NEAR(text.logprobs[i],
                  scores[static_cast<int64_t>(i)][text.tokens[i + 1]].item<float>(), 1e-5);
    }
  }
}

/// A prompt of several pieces.
serving::GenerationRequest long_request(int32_t first, int64_t size, int64_t tokens_to_generate) {
  serving::GenerationRequest request{.prompt = {}, .tokens_to_generate = tokens_to_generate};
  for (int64_t i = 0; i < size; ++i) {
    request.prompt.push_back(static_cast<int32_t>((first + i * i * 7) % 20));
  }
  request.stop.on_eod = false;
  request.logprobs = true;
  request.top_logprobs = 3;
  return request;
}

model::GptConfig long_config() {
  model::GptConfig config = test::small_llama_config();
  config.max_position_embeddings = config.seq_length = 600;
  return config;
}

TEST(ModelEngineTest, ATextBesideLongPromptsGetsItsTokensWhileTheyAreRead) {
  Served served(long_config(), {.max_slots = 4});
  serving::GenerationEngine& engine = *served.engine;
  ASSERT_TRUE(engine.add(long_request(1, 599, 1)).has_value());
  const int64_t small =
      *engine.add({.prompt = {1}, .tokens_to_generate = 4, .stop = {.on_eod = false}});
  for (int64_t step = 0; step < 4; ++step) {
    const auto events = engine.step();
    ASSERT_TRUE(events.has_value()) << events.status().message();
    for (const serving::GenerationEvent& event : *events) {
      EXPECT_EQ(event.token.has_value(), event.request == small) << step;
    }
    EXPECT_LT(engine.counters().step_tokens, engine.prompt_tokens_per_step() + 64);
  }
  EXPECT_EQ(engine.active(), 1);
  while (engine.active() > 0) {
    const auto events = engine.step();
    ASSERT_TRUE(events.has_value()) << events.status().message();
  }
  EXPECT_EQ(engine.counters().prompt_tokens, 599 + 1);
  EXPECT_EQ(engine.counters().generated_tokens, 1 + 4);
}

TEST(ModelEngineTest, ALongPromptHasTheSameBitsBesideAnyOthers) {
  if (best_instruction_set() == InstructionSet::kPortable) GTEST_SKIP() << "needs AVX2";
  std::vector<serving::GenerationRequest> requests;
  const int64_t sizes[] = {65, 300, 64, 3, 129, 590, 63, 1};
  for (const int64_t size : sizes) {
    requests.push_back(long_request(static_cast<int32_t>(size), size, 9));
  }
  Served alone(long_config(), {.max_slots = 1}), together(long_config(), {.max_slots = 7});
  const auto texts = generate(*together.engine, requests);
  ASSERT_TRUE(texts.has_value()) << texts.status().message();
  for (size_t i = 0; i < requests.size(); ++i) {
    const serving::GeneratedText text = alone.text(requests[i]);
    EXPECT_EQ((*texts)[i].tokens, text.tokens);
    EXPECT_EQ((*texts)[i].logprobs, text.logprobs);
    ASSERT_EQ(text.logprobs.size(), text.tokens.size() - 1);
    const at::Tensor scores = alone.scores(text.tokens);
    for (size_t j = 0; j < text.logprobs.size(); ++j) {
      EXPECT_NEAR(text.logprobs[j],
                  scores[static_cast<int64_t>(j)][text.tokens[j + 1]].item<float>(), 1e-5);
    }
  }
}

TEST(ModelEngineTest, APromptThatBeginsAsAnEarlierOneIsReadFromThereAndHasTheSameBits) {
  if (best_instruction_set() == InstructionSet::kPortable) GTEST_SKIP() << "needs AVX2";
  for (const bool together : {false, true}) {
    Served shared(long_config(), {.max_slots = 3});
    std::vector<serving::GenerationRequest> requests;
    for (const int64_t common : {0, 300, 200, 200, 129, 128, 64, 63}) {
      serving::GenerationRequest request = long_request(1, 300, 5);
      for (size_t i = static_cast<size_t>(common); i < 300; ++i) {
        request.prompt[i] = (request.prompt[i] + 1 + static_cast<int32_t>(requests.size())) % 20;
      }
      // What has been found of fewer alternatives, or of none, is of no use to more.
      request.top_logprobs = 5 - std::ssize(requests) / 2;
      request.logprobs = requests.size() != 6;
      if (!request.logprobs) request.top_logprobs = 0;
      requests.push_back(std::move(request));
    }
    std::vector<serving::GeneratedText> texts;
    if (together) {
      texts = *generate(*shared.engine, requests);
    } else {
      for (const auto& request : requests) texts.push_back(shared.text(request));
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      Served fresh(long_config(), {.max_slots = 1});
      const serving::GeneratedText text = fresh.text(requests[i]);
      EXPECT_EQ(fresh.engine->counters().reused_tokens, 0);
      EXPECT_EQ(texts[i].tokens, text.tokens) << i;
      EXPECT_EQ(texts[i].logprobs, text.logprobs) << i;
      ASSERT_EQ(texts[i].top_logprobs.size(), text.top_logprobs.size()) << i;
      for (size_t j = 0; j < text.top_logprobs.size(); ++j) {
        const auto same = [](const auto& a, const auto& b) {
          return a.token == b.token && a.logprob == b.logprob;
        };
        EXPECT_TRUE(std::ranges::equal(texts[i].top_logprobs[j], text.top_logprobs[j], same));
      }
    }
    EXPECT_GE(shared.engine->counters().reused_tokens, together ? 256 : 704);
    EXPECT_EQ(shared.engine->counters().reused_tokens + shared.engine->counters().prompt_tokens,
              8 * 300);
  }
}

TEST(ModelEngineTest, AlternativesAreTheLargestLogProbabilities) {
  Served served;
  serving::GenerationRequest request{.prompt = {3, 1, 4, 1, 5}, .tokens_to_generate = 30};
  request.sampling.top_k = 1;
  request.stop.on_eod = false;
  request.logprobs = true;
  for (const int64_t count : {1, 5, 20}) {
    request.top_logprobs = count;
    const serving::GeneratedText text = served.text(request);
    ASSERT_EQ(text.top_logprobs.size(), text.logprobs.size());
    const auto [values, ids] = served.scores(text.tokens).topk(count, 1);
    for (size_t i = 0; i < text.logprobs.size(); ++i) {
      const std::vector<serving::TokenLogprob>& top = text.top_logprobs[i];
      ASSERT_EQ(std::ssize(top), count);
      for (int64_t rank = 0; rank < count; ++rank) {
        const auto& [token, logprob] = top[static_cast<size_t>(rank)];
        EXPECT_NEAR(logprob, values[static_cast<int64_t>(i)][rank].item<float>(), 1e-5);
        // To the bit, as clients find out by it whether a token is the most likely one.
        if (token != text.tokens[i + 1]) continue;
        EXPECT_EQ(logprob, text.logprobs[i]);
      }
      if (i + 1 < text.prompt_size) continue;
      EXPECT_EQ(top.front().token, text.tokens[i + 1]);
    }
  }
}

/// The next token of OpenAI's arithmetic over a whole forward pass.
int32_t penalized(const at::Tensor& scores, const std::vector<int32_t>& answer,
                  const serving::GenerationRequest& request) {
  const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(answer)).to(at::kLong);
  const at::Tensor counts = at::bincount(ids, {}, kTokens).to(at::kDouble);
  at::Tensor logits = scores.to(at::kDouble) - counts * request.frequency_penalty -
                      counts.gt(0).to(at::kDouble) * request.presence_penalty;
  for (const auto& [token, bias] : request.logit_bias) logits[token].add_(bias);
  return logits.argmax().item<int32_t>();
}

TEST(ModelEngineTest, PenaltiesAndBiasChangeWhatIsDrawnAndNoLogProbability) {
  for (const auto& [presence, frequency, bias] :
       {std::tuple(0.0, 0.0, 0.0), {2.0, 0.0, 0.0}, {0.0, 0.7, 0.0}, {-1.5, -0.3, 1.25}}) {
    Served served;
    serving::GenerationRequest request{.prompt = {3, 1, 4, 1, 5}, .tokens_to_generate = 30};
    request.sampling.top_k = 1;
    request.stop.on_eod = false;
    request.logprobs = true;
    request.presence_penalty = presence;
    request.frequency_penalty = frequency;
    if (bias != 0) request.logit_bias = {{7, bias}, {2, -100.0}};
    const serving::GeneratedText text = served.text(request);
    std::vector<int32_t> wanted = request.prompt, answer;
    while (wanted.size() < 35) {
      answer.push_back(penalized(served.scores(wanted)[-1], answer, request));
      wanted.push_back(answer.back());
    }
    EXPECT_EQ(text.tokens, wanted) << presence << " " << frequency << " " << bias;
    const at::Tensor scores = served.scores(wanted);
    for (size_t i = 0; i < text.logprobs.size(); ++i) {
      EXPECT_NEAR(text.logprobs[i], scores[static_cast<int64_t>(i)][wanted[i + 1]].item<float>(),
                  1e-5);
    }
    request.logprobs = false;
    EXPECT_EQ(served.text(request).tokens, wanted);
  }
}

TEST(ModelEngineTest, TokensThatPadTheVocabularyAreNeverDrawn) {
  Served served;
  {
    const c10::NoGradGuard without_gradients;
    // Padding rows that would win each time: far along every direction.
    for (const nn::GptParameter& parameter : served.model.parameters()) {
      if (parameter.name != "embedding.word_embeddings.weight") continue;
      for (int64_t row = kTokens; row < 24; ++row) {
        parameter.tensor[row].copy_(parameter.tensor[row - kTokens] * 50);
      }
    }
  }
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const int64_t top_k : {0, 1, 5}) {
      serving::GenerationRequest request{.prompt = {1}, .tokens_to_generate = 30};
      request.sampling = {.temperature = 3, .top_k = top_k, .seed = seed};
      for (const int32_t token : served.text(request).tokens) EXPECT_LT(token, kTokens);
    }
  }
}

TEST(ModelEngineTest, AnEndOfDocumentEndsAText) {
  Served served;
  const auto ended = [&](bool on_eod) {
    serving::GenerationRequest request{.prompt = {1}, .tokens_to_generate = 39};
    request.sampling = {.temperature = 20, .seed = 3};
    request.stop.on_eod = on_eod;
    return served.text(request).tokens;
  };
  const std::vector<int32_t> whole = ended(false);
  const auto eod = std::find(whole.begin(), whole.end(), kTokens - 1);
  ASSERT_NE(eod, whole.end()) << "this seed draws one";
  EXPECT_EQ(ended(true), std::vector<int32_t>(whole.begin(), eod + 1));
}

TEST(ModelEngineTest, NoRunOfTokensComesTwice) {
  Served served;
  serving::GenerationRequest request{.prompt = {1, 2}, .tokens_to_generate = 38};
  request.sampling.top_k = 1;
  request.stop.on_eod = false;
  const auto pairs = [&](const std::vector<int32_t>& tokens) {
    std::multiset<std::pair<int32_t, int32_t>> found;
    for (size_t i = 1; i < tokens.size(); ++i) found.emplace(tokens[i - 1], tokens[i]);
    return found;
  };
  const auto has_double = [&](const std::vector<int32_t>& tokens) {
    const auto all = pairs(tokens);
    return std::ranges::any_of(all, [&](const auto& pair) { return all.count(pair) > 1; });
  };
  EXPECT_TRUE(has_double(served.text(request).tokens)) << "a greedy text goes in circles";
  request.no_repeat_ngram_size = 2;
  EXPECT_FALSE(has_double(served.text(request).tokens));
  // With single tokens none is left in the end: then all may come.
  request.no_repeat_ngram_size = 1;
  EXPECT_EQ(served.text(request).tokens.size(), 40U);
}

TEST(ModelEngineTest, NoTokenIsMadeWhereNoneIsAskedFor) {
  Served served;
  ASSERT_TRUE(served.engine->add({.prompt = {1, 2}, .tokens_to_generate = 0}).has_value());
  const auto events = served.engine->step();
  ASSERT_TRUE(events.has_value());
  ASSERT_EQ(events->size(), 1U);
  EXPECT_FALSE(events->front().token.has_value());
  ASSERT_TRUE(events->front().finished.has_value());
  EXPECT_EQ((*events->front().finished)->tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(served.engine->active(), 0);
}

TEST(ModelEngineTest, TokensThatAreHeldAtOnceAreBounded) {
  Served served(roomy(test::small_config()), {.max_slots = 4, .max_tokens = 30});
  const serving::GenerationRequest ten{.prompt = {1, 2}, .tokens_to_generate = 8};
  ASSERT_TRUE(served.engine->add(ten).has_value());
  ASSERT_TRUE(served.engine->add(ten).has_value());
  ASSERT_TRUE(served.engine->add(ten).has_value());
  EXPECT_FALSE(served.engine->has_room(ten));
  served.engine->cancel(1);
  EXPECT_TRUE(served.engine->has_room(ten));
  EXPECT_THAT(served.engine->check({.prompt = {1}, .tokens_to_generate = 30}).message(),
              HasSubstr("at most 30"));
}

TEST(ModelEngineTest, WrongRequestsAreErrorsOfCheck) {
  Served served;
  const auto error_of = [&](std::vector<int32_t> prompt, int64_t count, int64_t ngram = 0) {
    const Status status = served.engine->check(
        {.prompt = prompt, .tokens_to_generate = count, .no_repeat_ngram_size = ngram});
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(
        served.engine
            ->add({.prompt = prompt, .tokens_to_generate = count, .no_repeat_ngram_size = ngram})
            .status()
            .message(),
        status.message());
    return status.message();
  };
  EXPECT_THAT(error_of({}, 1), HasSubstr("prompt: expected at least one token"));
  EXPECT_THAT(error_of({1, 21}, 1), HasSubstr("expected ids from 0 to 20, found 21 at 1"));
  EXPECT_THAT(error_of({-1}, 1), HasSubstr("found -1 at 0"));
  EXPECT_THAT(error_of({1}, -1), HasSubstr("tokens_to_generate"));
  EXPECT_THAT(error_of({1}, 40), HasSubstr("at most 40"));
  EXPECT_THAT(error_of({1}, std::numeric_limits<int64_t>::max()), HasSubstr("at most 40"));
  EXPECT_THAT(error_of(std::vector<int32_t>(41, 1), 0), HasSubstr("at most 40"));
  EXPECT_THAT(error_of({1}, 1, -2), HasSubstr("no_repeat_ngram_size"));
  serving::GenerationRequest request{.prompt = {1}, .tokens_to_generate = 1};
  const auto expect = [&](const serving::GenerationRequest& wrong, const char* message) {
    EXPECT_THAT(served.engine->check(wrong).message(), HasSubstr(message));
  };
  const auto with = [&](auto change) {
    serving::GenerationRequest other = request;
    change(other);
    return other;
  };
  expect(with([](auto& r) { r.top_logprobs = 1; }), "expected together with logprobs");
  expect(with([](auto& r) { r.top_logprobs = 21; }), "top_logprobs: expected 0 to 20, found 21");
  expect(with([](auto& r) { r.logit_bias = {{21, 1}}; }), "logit_bias: expected ids from 0 to 20");
  expect(with([](auto& r) { r.logit_bias = {{-1, 1}}; }), "found -1");
  expect(with([](auto& r) { r.logit_bias = {{2, 1}, {2, 1}}; }), "found 2 twice");
  expect(with([](auto& r) { r.logit_bias = {{2, 101}}; }), "logit_bias: expected -100 to 100");
  expect(with([](auto& r) { r.presence_penalty = 2.5; }), "presence_penalty: expected -2 to 2");
  expect(with([](auto& r) { r.frequency_penalty = std::nan(""); }), "frequency_penalty: expected");
  expect(with([](auto& r) {
           r.logit_bias = {{2, 1}};
           r.beam = {.beam_width = 2};
         }),
         "logit_bias and penalties: not available with beam search");
  EXPECT_THAT(served.engine->check({.prompt = {1}, .prevent_newline_after_colon = true}).message(),
              HasSubstr("prevent_newline_after_colon: expected a tokenizer with tokens of \":\""));
  const auto texts = generate(*served.engine, {{.prompt = {1}}, {.prompt = {77}}});
  EXPECT_THAT(texts.status().message(), HasSubstr("text 0: tokens")) << "64 tokens do not fit";
}

TEST(ModelEngineTest, ATokenizerThatIsTooLargeForTheModelIsAnError) {
  nn::GptModel model = test::small_model(test::small_config());
  const LetterTokenizer tokenizer = LetterTokenizer::numbers(25);
  EXPECT_THAT(create_generation_engine(model, tokenizer, {}).status().message(),
              HasSubstr("at most the model's 24 tokens, found 25"));
  const LetterTokenizer fits = LetterTokenizer::numbers(24);
  EXPECT_EQ(create_generation_engine(model, fits, {.max_slots = 0}).status().code(),
            StatusCode::kInvalidArgument);
}

/// One request for each way in which logits are used.
std::vector<serving::GenerationRequest> requests_of_all_kinds() {
  std::vector<serving::GenerationRequest> requests(8, {.prompt = {1, 4}, .tokens_to_generate = 2});
  requests[1].sampling.top_k = 1;
  requests[2].sampling.top_k = 5;
  requests[3].sampling.top_p = 0.9;
  requests[4].sampling = {.temperature = 1e-31};
  requests[5].logprobs = true;
  requests[6].logprobs = true;
  requests[6].tokens_to_generate = 0;
  requests[7].beam = {.beam_width = 2, .num_return_gen = 2, .stop_token = -1};
  return requests;
}

TEST(ModelEngineTest, AModelWhoseLogitsAreNotFiniteIsAnErrorByTextAndToken) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::nanf(""), kInfinity, -kInfinity}) {
    Served served;
    EXPECT_TRUE(served.engine->failure().ok());
    {
      const c10::NoGradGuard without_gradients;
      // Of a token that no prompt has: its logit is not finite, all hidden states are.
      served.model.parameters()[0].tensor[9].fill_(value);
    }
    std::vector<serving::GenerationRequest> requests = requests_of_all_kinds();
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::string where = i == 5 || i == 6 ? "text 0: token 1: " : "text 0: token 2: ";
      EXPECT_THAT(generate(*served.engine, {requests[i]}).status().message(),
                  StartsWith(where + "expected finite logits, found NaN or infinity"))
          << i << " " << value;
      EXPECT_EQ(served.engine->active(), 0);
      EXPECT_FALSE(served.engine->failure().ok());
    }
    EXPECT_THAT(generate(*served.engine, requests).status().message(), StartsWith("text "));
    auto remade = create_generation_engine(served.model, served.tokenizer, {});
    EXPECT_THAT((*remade)->failure().message(), StartsWith("warm-up: expected finite logits"));
  }
}

TEST(ModelEngineTest, ATextWhoseLogitsAreNotFiniteFailsAlone) {
  model::GptConfig config = roomy(test::small_config());
  config.untie_embeddings_and_output_weights = true;
  Served served(config, {.max_slots = 2});
  {
    const c10::NoGradGuard without_gradients;
    served.model.parameters()[0].tensor[9].fill_(std::nanf(""));  // only who reads it meets it
  }
  const int64_t well = *served.engine->add({.prompt = {1}, .tokens_to_generate = 1});
  ASSERT_TRUE(served.engine->add({.prompt = {1, 9}, .tokens_to_generate = 1}).has_value());
  const auto events = served.engine->step();
  ASSERT_TRUE(events.has_value()) << events.status().message();
  for (const serving::GenerationEvent& event : *events) {
    ASSERT_TRUE(event.finished.has_value());
    EXPECT_EQ(event.finished->has_value(), event.request == well);
    EXPECT_EQ(event.token.has_value(), event.request == well);
  }
  EXPECT_EQ(served.engine->active(), 0);
  EXPECT_FALSE(served.engine->failure().ok());
  served.text({.prompt = {1}, .tokens_to_generate = 1});
  EXPECT_TRUE(served.engine->failure().ok()) << "the last text is well";
}

TEST(GenerateTest, ProgressCountsAndCanEndTheWork) {
  Served served(roomy(test::small_config()), {.max_slots = 3});
  GenerationProgress last;
  int64_t tokens = 0;
  for (const serving::GenerationRequest& request : greedy_requests())
    tokens += request.tokens_to_generate;
  ASSERT_TRUE(generate(*served.engine, greedy_requests(), [&](const GenerationProgress& now) {
                last = now;
                return true;
              }).has_value());
  EXPECT_EQ(last.finished, 7);
  EXPECT_EQ(last.texts, 7);
  EXPECT_EQ(last.tokens, tokens);
  const auto cancelled =
      generate(*served.engine, greedy_requests(), [](const GenerationProgress&) { return false; });
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(served.engine->active(), 0);
}

}  // namespace
}  // namespace meg::generation
