#include "libmeg/serving/generation_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <thread>
#include <utility>

#include "tests/serving/stand_in_engine.h"

namespace meg::serving {
namespace {

using test::stand_in_answer;
using test::StandInEngine;
using test::StandInOptions;

GenerationRequest text(int32_t first, int64_t tokens) {
  GenerationRequest request;
  request.prompt = {first, first + 1};
  request.tokens_to_generate = tokens;
  request.sampling.seed = static_cast<uint64_t>(first);
  request.stop.on_eod = false;
  return request;
}

Result<GenerationOutcome> outcome_of(const std::shared_ptr<GenerationTicket>& ticket) {
  pollfd ready{ticket->ready_fd(), POLLIN, 0};
  if (::poll(&ready, 1, 20000) != 1) return make_error(StatusCode::kInternal, "no outcome in 20 s");
  return ticket->take();
}

std::unique_ptr<GenerationQueue> queue_of(const StandInOptions& options, int64_t max_waiting = 8) {
  return std::make_unique<GenerationQueue>(std::make_unique<StandInEngine>(options), max_waiting);
}

Result<GenerationOutcome> run(GenerationQueue& queue, GenerationJob job) {
  auto ticket = queue.submit(std::move(job));
  if (!ticket.has_value()) return ticket.error();
  return outcome_of(*ticket);
}

TEST(GenerationQueueTest, ReturnsTextsInTheOrderOfRequests) {
  StandInOptions options;
  options.slots = 2;
  const auto queue = queue_of(options);
  const std::vector<GenerationRequest> texts = {text(1, 30), text(2, 1), text(3, 20), text(4, 2)};
  const auto outcome = run(*queue, texts);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
  ASSERT_EQ(outcome->size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ((*outcome)[i].tokens, stand_in_answer(options, texts[i]).tokens) << i;
  }
}

TEST(GenerationQueueTest, JobsOfManyThreadsShareTheEngine) {
  StandInOptions options;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options, 64);
  std::vector<std::future<bool>> answers;
  for (int32_t i = 0; i < 32; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      const auto outcome = run(*queue, {text(i, 20)});
      return outcome.has_value() &&
             (*outcome)[0].tokens == stand_in_answer(options, text(i, 20)).tokens;
    }));
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.get());
}

TEST(GenerationQueueTest, WhatTheEngineRefusesIsTheAnswer) {
  const auto queue = queue_of({});
  const auto outcome = run(*queue, {text(1, 5), text(1, 5000)});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(run(*queue, {text(1, 5)}).has_value());
  EXPECT_EQ(queue->load().active, 0);
}

TEST(GenerationQueueTest, AFullQueueRefuses) {
  StandInOptions options;
  options.slots = 1;
  options.step_microseconds = 20000;
  const auto queue = queue_of(options, 2);
  std::vector<std::shared_ptr<GenerationTicket>> taken;
  Status refusal;
  for (int i = 0; i < 10 && refusal.ok(); ++i) {
    auto ticket = queue->submit({text(1, 1000)});
    refusal = ticket.status();
    if (ticket.has_value()) taken.push_back(*ticket);
  }
  EXPECT_EQ(refusal.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(taken.size(), 2u);
  EXPECT_LE(taken.size(), 3u);
}

TEST(GenerationQueueTest, ACancelledJobLeavesTheEngineToOthers) {
  StandInOptions options;
  options.slots = 1;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  GenerationRequest endless = text(1, 1000);
  const auto first = queue->submit({endless, endless, endless});
  ASSERT_TRUE(first.has_value());
  const auto second = queue->submit({text(2, 3)});
  ASSERT_TRUE(second.has_value());
  (*first)->cancel();
  EXPECT_TRUE(outcome_of(*second).has_value());
}

TEST(GenerationQueueTest, AJobOfManyTextsLeavesRoomToThoseThatComeAfterIt) {
  StandInOptions options;
  options.slots = 4;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  const auto many = queue->submit(GenerationJob(128, text(1, 20)));
  ASSERT_TRUE(many.has_value());
  while (queue->load().active < 4) std::this_thread::yield();
  EXPECT_GT(queue->load().waiting_texts, 100);
  for (int32_t i = 0; i < 3; ++i) EXPECT_TRUE(run(*queue, {text(i, 1), text(i, 1)}).has_value());
  EXPECT_GT(queue->load().waiting_texts, 50) << "they have not waited for the first job";
  EXPECT_TRUE(outcome_of(*many).has_value());
  EXPECT_EQ(queue->load().waiting_texts, 0);
}

TEST(GenerationQueueTest, AClientOfManyJobsLeavesRoomToOthers) {
  StandInOptions options;
  options.slots = 4;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options, 256);
  std::vector<std::shared_ptr<GenerationTicket>> many;
  for (int32_t i = 0; i < 128; ++i) {
    auto ticket = queue->submit({text(1, 200)}, /*streams=*/false, "greedy");
    ASSERT_TRUE(ticket.has_value());
    many.push_back(*std::move(ticket));
  }
  while (queue->load().active < 4) std::this_thread::yield();
  for (int32_t i = 0; i < 3; ++i) {
    const auto ticket = queue->submit({text(i, 1)}, /*streams=*/false, "modest");
    ASSERT_TRUE(ticket.has_value());
    EXPECT_TRUE(outcome_of(*ticket).has_value());
  }
  EXPECT_GT(queue->load().waiting, 50) << "they have not waited for those before them";
  for (const auto& ticket : many) ticket->cancel();
}

TEST(GenerationQueueTest, AJobOfLongPromptsLeavesSlotsToThoseThatComeAfterIt) {
  StandInOptions options;
  options.slots = 4;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  GenerationRequest scored = text(1, 1);
  scored.prompt.resize(1000, 5);
  const auto many = queue->submit(GenerationJob(500, scored));
  ASSERT_TRUE(many.has_value());
  while (queue->load().active == 0) std::this_thread::yield();
  EXPECT_EQ(queue->load().active, 1) << "a step does not read more";
  EXPECT_TRUE(run(*queue, {text(2, 3)}).has_value());
  EXPECT_GT(queue->load().waiting_texts, 400);
}

/// What a streaming job's texts have been given when its outcome is there.
std::vector<TextProgress> progress_of(GenerationTicket& ticket, int64_t* parts) {
  std::vector<TextProgress> all;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (bool is_last = false; !is_last; ++*parts) {
    pollfd ready{ticket.ready_fd(), POLLIN, 0};
    if (::poll(&ready, 1, 20000) != 1) return {};
    is_last = ticket.has_outcome();
    const std::vector<TextProgress> now = ticket.take_progress();
    all.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i) {
      append(all[i].tokens, now[i].tokens);
      append(all[i].logprobs, now[i].logprobs);
      append(all[i].top_logprobs, now[i].top_logprobs);
      all[i].has_ended = all[i].has_ended || now[i].has_ended;
    }
  }
  return all;
}

TEST(GenerationQueueTest, AStreamGivesStepByStepWhatTheOutcomeHas) {
  StandInOptions options;
  options.step_microseconds = 5000;
  const auto queue = queue_of(options);
  GenerationJob job = {text(1, 20), text(2, 10)};
  for (GenerationRequest& request : job) {
    request.logprobs = true;
    request.top_logprobs = 3;
  }
  const auto ticket = queue->submit(job, /*streams=*/true);
  ASSERT_TRUE(ticket.has_value());
  int64_t parts = 0;
  const std::vector<TextProgress> streamed = progress_of(**ticket, &parts);
  EXPECT_GT(parts, 5);
  const auto outcome = (*ticket)->take();
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
  ASSERT_EQ(streamed.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const GeneratedText& text = (*outcome)[i];
    EXPECT_EQ(streamed[i].tokens, std::vector(text.tokens.begin() + 2, text.tokens.end()));
    EXPECT_EQ(streamed[i].logprobs, text.logprobs);
    EXPECT_EQ(text.logprobs.size(), text.tokens.size() - 1);
    EXPECT_EQ(streamed[i].top_logprobs.size(), text.logprobs.size());
    EXPECT_TRUE(streamed[i].has_ended);
  }
}

TEST(GenerationQueueTest, ATextThatTheClientEndsLeavesTheOthersOfItsJob) {
  StandInOptions options;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  const auto ticket = queue->submit({text(1, 1000), text(2, 30)}, /*streams=*/true);
  ASSERT_TRUE(ticket.has_value());
  pollfd ready{(*ticket)->ready_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, 20000), 1);
  (*ticket)->end_text(0);
  int64_t parts = 0;
  EXPECT_TRUE(progress_of(**ticket, &parts)[0].has_ended);
  const auto outcome = (*ticket)->take();
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
  EXPECT_TRUE((*outcome)[0].stopped);
  EXPECT_LT((*outcome)[0].tokens.size(), 500u);
  EXPECT_EQ((*outcome)[1].tokens.size(), 32u);
  EXPECT_EQ(queue->load().active, 0);
}

TEST(GenerationQueueTest, AFailedStepEndsTheJobsInTheEngineAlone) {
  StandInOptions options;
  options.slots = 1;
  options.failing_step = 2;
  const auto queue = queue_of(options);
  const auto first = queue->submit({text(1, 10)});
  const auto second = queue->submit({text(2, 10)});
  ASSERT_TRUE(first.has_value() && second.has_value());
  const auto failed = outcome_of(*first);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), StatusCode::kInternal);
  EXPECT_TRUE(outcome_of(*second).has_value());
}

GenerationRequest search_of(int64_t tokens) {
  GenerationRequest request = text(5, tokens);
  request.beam = BeamSearchOptions{.beam_width = 2, .num_return_gen = 2};
  return request;
}

TEST(GenerationQueueTest, ABeamSearchGivesItsBeams) {
  const auto queue = queue_of({});
  const auto outcome = run(*queue, {search_of(3)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
  ASSERT_EQ(outcome->front().beams.size(), 2u);
  EXPECT_EQ(outcome->front().beams[1].tokens, (std::vector<int32_t>{5, 6, 1, 1, 1}));
}

TEST(GenerationQueueTest, TextsContinueBesideBeamSearchesThatRunAndWait) {
  StandInOptions options;
  options.slots = 1;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  const auto endless = queue->submit({search_of(1000)});
  const auto waiting = queue->submit({search_of(1)});
  ASSERT_TRUE(endless.has_value() && waiting.has_value());
  for (int32_t i = 0; i < 10; ++i) EXPECT_TRUE(run(*queue, {text(i, 3)}).has_value());
  EXPECT_EQ(queue->load().beam_searches, 1);
  EXPECT_EQ(queue->load().waiting, 1);
  (*endless)->cancel();
  EXPECT_TRUE(outcome_of(*waiting).has_value());
}

TEST(GenerationQueueTest, ASearchThatFailsEndsAlone) {
  StandInOptions options;
  options.step_microseconds = 1000;
  const auto queue = queue_of(options);
  const auto running = queue->submit({text(1, 20)});
  ASSERT_TRUE(running.has_value());
  GenerationRequest failing = search_of(3);
  failing.beam->stop_token = StandInEngine::kFailingStop;
  EXPECT_EQ(run(*queue, {failing}).status().message(), "text 0: the search failed");
  EXPECT_TRUE(outcome_of(*running).has_value());
}

TEST(GenerationQueueTest, LoadSaysHowLongAStepTakes) {
  StandInOptions options;
  options.step_microseconds = 200000;
  const auto queue = queue_of(options);
  EXPECT_EQ(queue->load().step_seconds, 0);
  const auto ticket = queue->submit({text(1, 3)});
  ASSERT_TRUE(ticket.has_value());
  while (queue->load().step_seconds < 0.1) std::this_thread::yield();
  EXPECT_TRUE(outcome_of(*ticket).has_value());
  EXPECT_EQ(queue->load().step_seconds, 0);
}

TEST(GenerationQueueTest, StoppingWithoutGraceCancelsASearch) {
  StandInOptions options;
  options.step_microseconds = 2000;
  const auto queue = queue_of(options);
  const auto running = queue->submit({search_of(1000)});
  ASSERT_TRUE(running.has_value());
  while (queue->load().active == 0) std::this_thread::yield();
  queue->stop(std::chrono::milliseconds(0));
  EXPECT_EQ(outcome_of(*running).status().code(), StatusCode::kCancelled);
}

TEST(GenerationQueueTest, StoppingFinishesWhatRunsAndRefusesTheRest) {
  StandInOptions options;
  options.slots = 1;
  options.step_microseconds = 2000;
  const auto queue = queue_of(options);
  const auto running = queue->submit({text(1, 30)});
  ASSERT_TRUE(running.has_value());
  while (queue->load().active == 0) std::this_thread::yield();
  const auto waiting = queue->submit({text(2, 30)});
  ASSERT_TRUE(waiting.has_value());
  queue->stop(std::chrono::seconds(20));
  EXPECT_TRUE(outcome_of(*running).has_value());
  EXPECT_EQ(outcome_of(*waiting).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(queue->submit({text(3, 1)}).status().code(), StatusCode::kCancelled);
}

TEST(GenerationQueueTest, StoppingWithoutGraceCancelsWhatRuns) {
  StandInOptions options;
  options.step_microseconds = 2000;
  const auto queue = queue_of(options);
  const auto running = queue->submit({text(1, 1000)});
  ASSERT_TRUE(running.has_value());
  while (queue->load().active == 0) std::this_thread::yield();
  queue->stop(std::chrono::milliseconds(0));
  EXPECT_EQ(outcome_of(*running).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(queue->load().active, 0);
}

}  // namespace
}  // namespace meg::serving
