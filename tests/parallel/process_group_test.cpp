#include "libmeg/parallel/process_group.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/internal/roll_call.h"
#include "libmeg/parallel/observed_group.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/parallel/pipeline_links.h"
#include "tests/launch_ranks.h"
#include "tests/parallel/fake_process_group.h"

namespace meg::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr auto kTimeout = std::chrono::minutes(1);

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

ParallelState connected(Mesh::Sizes sizes, std::chrono::milliseconds timeout = kTimeout) {
  const auto environment = read_launch_environment();
  EXPECT_TRUE(environment.has_value()) << environment.error().message();
  auto state = ParallelState::connect(*environment, sizes, RankOrder::kDataBeforePipeline, timeout);
  EXPECT_TRUE(state.has_value()) << state.error().message();
  return state.has_value() ? *std::move(state) : ParallelState();
}

TEST(ParallelStateTest, RankThatDoesNotComeIsAnError) {
  LaunchEnvironment environment;
  environment.world_size = 2;
  environment.master_port = 0;  // any free port
  const auto state = ParallelState::connect(
      environment, {1, 1, 1, 0, 1}, RankOrder::kDataBeforePipeline, std::chrono::milliseconds(200));
  ASSERT_FALSE(state.has_value());
  EXPECT_EQ(state.error().code(), StatusCode::kIoError);
  EXPECT_THAT(state.error().message(), HasSubstr("rank 0 of 2: no meeting at 127.0.0.1:0: no "
                                                 "answer from rank 1 within 0.2 s"));
}

TEST(ParallelStateTest, FirstRankThatDoesNotComeIsNamed) {
  LaunchEnvironment environment;
  environment.rank = 1;
  environment.world_size = 2;
  environment.master_port = 1;  // nobody listens there
  const auto state = ParallelState::connect(
      environment, {1, 1, 1, 0, 1}, RankOrder::kDataBeforePipeline, std::chrono::milliseconds(200));
  ASSERT_FALSE(state.has_value());
  EXPECT_THAT(state.error().message(), HasSubstr("no answer from rank 0 within 0.2 s"));
}

TEST(ParallelStateTest, NameThatIsUnknownEndsLongBeforeTheTimeout) {
  LaunchEnvironment environment;
  environment.rank = 1;
  environment.world_size = 2;
  environment.master_addr = "no-such-host.invalid";
  const auto state = ParallelState::connect(environment, {1, 1, 1, 0, 1},
                                            RankOrder::kDataBeforePipeline, std::chrono::hours(24));
  ASSERT_FALSE(state.has_value());
  EXPECT_THAT(state.error().message(), HasSubstr("no meeting at no-such-host.invalid:29500: "
                                                 "MASTER_ADDR: "));
}

TEST(ParallelStateTest, PortThatIsTakenIsAnErrorAtOnce) {
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  LaunchEnvironment environment;
  environment.world_size = 2;
  environment.master_port = ntohs(address.sin_port);
  const auto state = ParallelState::connect(environment, {1, 1, 1, 0, 1},
                                            RankOrder::kDataBeforePipeline, kTimeout);
  ASSERT_FALSE(state.has_value());
  EXPECT_THAT(state.error().message(), HasSubstr("of this machine: Address already in use"));
  ::close(taken);
}

TEST(RollCallTest, NamesWhoDoesNotAnswer) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const RollCall first(store, 0, 4), last(store, 3, 4);
  EXPECT_THAT(last.absent_ranks(std::chrono::milliseconds(0)), ElementsAre(0, 1, 2));
  EXPECT_THAT(first.absent_ranks(std::chrono::milliseconds(0)), ElementsAre(1, 2));
}

TEST(ParallelStateTest, OneRankSendsNothing) {
  const ParallelState state;
  const at::Tensor tensor = at::arange(10);
  expect_ok(state.world().all_reduce(tensor));
  EXPECT_TRUE(at::equal(tensor, at::arange(10)));
  const at::Tensor whole = at::zeros({10}, at::kLong);
  expect_ok(state.data()->all_gather(whole, tensor));
  EXPECT_TRUE(at::equal(whole, tensor));
  EXPECT_FALSE(state.pipeline()->send(tensor, 1).ok());
}

TEST(ProcessGroupTest, CollectivesOfTwoRanks) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  ProcessGroup& group = state.world();
  const int rank = group.rank();
  ASSERT_EQ(group.size(), 2);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    const at::Tensor mine = at::arange(1000, at::kLong).remainder(100).to(type) * (rank + 1);
    const at::Tensor base = at::arange(1000, at::kLong).remainder(100).to(type);
    const at::Tensor sum = mine.clone();
    expect_ok(group.all_reduce(sum));
    EXPECT_TRUE(at::equal(sum, base * 3)) << type;
    const at::Tensor largest = mine.clone();
    expect_ok(group.all_reduce(largest, Reduction::kMax));
    EXPECT_TRUE(at::equal(largest, base * 2)) << type;
    const at::Tensor whole = at::zeros({2, 1000}, type);
    expect_ok(group.all_gather(whole, mine));
    EXPECT_TRUE(at::equal(whole, at::stack({base, base * 2}))) << type;
    const at::Tensor in_place = at::zeros({2, 1000}, type);
    in_place[rank].copy_(mine);
    expect_ok(group.all_gather(in_place, in_place[rank]));
    EXPECT_TRUE(at::equal(in_place, whole)) << type;
    const at::Tensor part = at::zeros({1000}, type);
    expect_ok(group.reduce_scatter(part, at::stack({mine, mine * 2})));
    EXPECT_TRUE(at::equal(part, base * 3 * (rank + 1))) << type;
    const at::Tensor scattered = at::stack({mine, mine * 2});
    expect_ok(group.reduce_scatter(scattered[rank], scattered));
    EXPECT_TRUE(at::equal(scattered[rank], part)) << type;
    const at::Tensor told = mine.clone();
    expect_ok(group.broadcast(told, 1));
    EXPECT_TRUE(at::equal(told, base * 2)) << type;
    const at::Tensor passed = mine.clone();
    expect_ok(rank == 0 ? group.send(passed, 1) : group.receive(passed, 0));
    EXPECT_TRUE(at::equal(passed, base)) << type;
  }
  expect_ok(group.barrier());
}

TEST(ProcessGroupTest, WorkOfSeveralCollectivesIsWaitedForLater) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  std::vector<at::Tensor> tensors;
  std::vector<PendingWork> works;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(at::full({1000}, i + state.world().rank()));
    works.push_back(state.world().start_all_reduce(tensors.back(), Reduction::kSum));
  }
  for (int i = 7; i >= 0; --i) {
    expect_ok(works[static_cast<size_t>(i)]->wait());
    EXPECT_TRUE(at::equal(tensors[static_cast<size_t>(i)], at::full({1000}, 2 * i + 1)));
  }
}

TEST(ProcessGroupTest, MessagesArriveInTheirOrder) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  const int other = 1 - state.world().rank();
  std::vector<PendingWork> sent;
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 16; ++i) {
    tensors.push_back(at::full({20000}, i));
    sent.push_back(state.world().start_send(tensors.back(), other));
  }
  for (int i = 0; i < 16; ++i) {
    const at::Tensor received = at::empty({20000}, at::kLong);
    expect_ok(state.world().receive(received, other));
    EXPECT_TRUE(at::equal(received, at::full({20000}, i))) << i;
  }
  for (const PendingWork& work : sent) expect_ok(work->wait());
}

TEST(ProcessGroupTest, GroupsOfFourRanksDoNotMix) {
  if (test::launched_ranks(4)) return;
  const ParallelState state = connected({2, 1, 1, 0, 2});
  const Mesh& mesh = state.mesh();
  for (const auto& [group, axes] :
       {std::pair(state.tensor(), std::vector<int>(mesh.group({Axis::kTensor}))),
        std::pair(state.pipeline(), std::vector<int>(mesh.group({Axis::kPipeline}))),
        std::pair(state.model(), std::vector<int>{0, 1, 2, 3})}) {
    const at::Tensor ranks = at::zeros({group->size()}, at::kLong);
    expect_ok(group->all_gather(ranks, at::full({1}, mesh.rank(), at::kLong)));
    EXPECT_EQ(group->size(), static_cast<int>(axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) EXPECT_EQ(ranks[i].item<int>(), axes[i]);
  }
  EXPECT_EQ(state.data()->size(), 1);
  EXPECT_EQ(state.embedding()->size(), 2);
}

TEST(ProcessGroupTest, RowsGoToTheRanksForWhichTheyAre) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  ProcessGroup& group = state.world();
  const int64_t rank = group.rank();
  // By sender and receiver. Nobody sends anything in the last case, which is no reason to wait.
  for (const auto& rows :
       {std::array<std::array<int64_t, 2>, 2>{{{1, 2}, {3, 0}}}, {{{0, 5}, {0, 0}}}, {}}) {
    const auto own = static_cast<size_t>(rank);
    const std::vector<int64_t> sent = {rows[own][0], rows[own][1]};
    const std::vector<int64_t> coming = {rows[0][own], rows[1][own]};
    const at::Tensor received = at::empty({coming[0] + coming[1], 3}, at::kLong);
    // Rows say who sends them to whom.
    const auto expected = [](int64_t from, int64_t to, int64_t count) {
      return at::full({count, 3}, 10 * from + to, at::kLong);
    };
    expect_ok(group.all_to_all(
        received, coming, at::cat({expected(rank, 0, sent[0]), expected(rank, 1, sent[1])}), sent));
    EXPECT_TRUE(
        at::equal(received, at::cat({expected(0, rank, coming[0]), expected(1, rank, coming[1])})));
  }
}

/// [tensor, 1, expert, 0, 1]
ParallelState with_experts(int tensor, int expert, int expert_tensor) {
  auto state = ParallelState::connect(*read_launch_environment(), {tensor, 1, expert, 0, 1},
                                      RankOrder::kDataBeforePipeline, kTimeout, {}, expert_tensor);
  EXPECT_TRUE(state.has_value()) << state.error().message();
  return state.has_value() ? *std::move(state) : ParallelState();
}

std::vector<int64_t> members(ProcessGroup& group, int rank) {
  const at::Tensor all = at::zeros({group.size()}, at::kLong);
  expect_ok(group.all_gather(all, at::full({1}, rank, at::kLong)));
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

// The groups of core_v0.16's initialize_model_parallel for these sizes.
TEST(ProcessGroupTest, ExpertsHaveGroupsOfTheirOwn) {
  if (test::launched_ranks(4)) return;
  using Ranks = std::vector<int64_t>;

  struct Case {
    int tensor, expert, expert_tensor;
    std::array<Ranks, 4> experts, expert_data;  // of each rank
  };

  const Ranks first = {0, 1}, last = {2, 3}, even = {0, 2}, odd = {1, 3}, all = {0, 1, 2, 3};
  const auto alone = [](int64_t rank) { return Ranks{rank}; };
  int runs = 0;
  for (const Case& of :
       {Case{1, 2, 0, {first, first, last, last}, {even, odd, even, odd}},
        Case{2, 2, 2, {all, all, all, all}, {alone(0), alone(1), alone(2), alone(3)}},
        Case{2, 2, 1, {first, first, last, last}, {even, odd, even, odd}},
        Case{2, 1, 0, {first, first, last, last}, {even, odd, even, odd}},
        Case{4, 1, 2, {first, first, last, last}, {even, odd, even, odd}},
        Case{2, 1, 1, {alone(0), alone(1), alone(2), alone(3)}, {all, all, all, all}}}) {
    ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(runs++).c_str(), /*overwrite=*/1);
    const ParallelState state = with_experts(of.tensor, of.expert, of.expert_tensor);
    const int rank = state.mesh().rank();
    EXPECT_EQ(state.data()->size(), 4 / of.tensor);
    EXPECT_EQ(members(*state.experts(), rank), of.experts[static_cast<size_t>(rank)]);
    EXPECT_EQ(members(*state.expert_data(), rank), of.expert_data[static_cast<size_t>(rank)]);
  }
}

TEST(ParallelStateTest, RefusesSizesOfExpertsThatRanksCannotHave) {
  LaunchEnvironment environment;
  environment.world_size = 4;
  const auto message = [&](Mesh::Sizes sizes, RankOrder order, int expert_tensor) {
    const auto state =
        ParallelState::connect(environment, sizes, order, kTimeout, {}, expert_tensor);
    return state.has_value() ? std::string("none") : std::string(state.error().message());
  };
  constexpr auto kOrder = RankOrder::kDataBeforePipeline;
  EXPECT_THAT(message({1, 1, 3, 0, 1}, kOrder, 0),
              HasSubstr("`expert_model_parallel_size`: expected a divisor of 4, the data parallel "
                        "size, found 3"));
  EXPECT_THAT(message({2, 1, 4, 0, 1}, kOrder, 2), HasSubstr("expected a divisor of 2"));
  EXPECT_THAT(message({4, 1, 1, 0, 1}, kOrder, 3),
              HasSubstr("`expert_tensor_parallel_size`: expected a divisor of 4, the tensor "
                        "parallel size, found 3"));
  EXPECT_THAT(message({2, 1, 1, 0, 1}, kOrder, 4), HasSubstr("expected a divisor of 2"));
  EXPECT_THAT(message({4, 1, 4, 0, 1}, kOrder, 2),
              HasSubstr("expected a divisor of 2, the data parallel size x the tensor parallel "
                        "size / `expert_tensor_parallel_size`, found 4"));
  EXPECT_THAT(message({1, 1, 2, 0, 2}, RankOrder::kPipelineBeforeData, 0),
              HasSubstr("`use_tp_pp_dp_mapping`"));
}

TEST(ProcessGroupTest, RankThatIsGoneIsAnErrorOfTheOthers) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  if (state.world().rank() == 1) return;
  const Status status = state.world().all_reduce(at::ones({1000}));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("all-reduce of the world group"));
}

TEST(FakeProcessGroupTest, CountsCallsAndBytes) {
  test::FakeProcessGroup group(1, 4);
  const at::Tensor tensor = at::ones({3});
  expect_ok(group.all_reduce(tensor));
  EXPECT_TRUE(at::equal(tensor, at::full({3}, 4.0F)));
  expect_ok(group.all_gather(at::empty({12}), tensor));
  EXPECT_THAT(group.counts(),
              UnorderedElementsAre(
                  Pair("all_reduce", test::FakeProcessGroup::Count{.calls = 1, .bytes = 12}),
                  Pair("all_gather", test::FakeProcessGroup::Count{.calls = 1, .bytes = 48})));
}

TEST(ObservedGroupTest, TellsWhatWasWaitedFor) {
  const auto fake = std::make_shared<test::FakeProcessGroup>(1, 4);
  std::vector<std::tuple<std::string, std::string, int64_t>> seen;
  const auto group = observed_group(fake, "data", [&](const Communication& communication) {
    EXPECT_LE(communication.begin, communication.end);
    seen.emplace_back(communication.group, communication.operation, communication.bytes);
  });
  EXPECT_EQ(std::pair(group->rank(), group->size()), std::pair(1, 4));
  const at::Tensor tensor = at::ones({4});
  const PendingWork sent = group->start_send(tensor, 0);
  EXPECT_TRUE(seen.empty()) << "nobody has waited";
  expect_ok(group->all_reduce(tensor));
  expect_ok(sent->wait());
  expect_ok(group->all_gather(at::empty({16}), tensor));
  expect_ok(group->reduce_scatter(at::empty({1}), tensor));
  expect_ok(group->broadcast(tensor, 2));
  expect_ok(group->receive(tensor, 2));
  const auto told = [](const char* operation, int64_t bytes) {
    return std::tuple(std::string("data"), std::string(operation), bytes);
  };
  EXPECT_THAT(seen,
              ElementsAre(told("all-reduce", 16), told("send", 16), told("all-gather", 64),
                          told("reduce-scatter", 16), told("broadcast", 16), told("receive", 16)));
  EXPECT_EQ(fake->counts().at("all_reduce").calls, 1);
}

TEST(PipelineLinksTest, TwoStagesFormARingWhoseDirectionsDoNotMix) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 2});
  PipelineLinks links(state);
  const int rank = state.pipeline()->rank();
  const auto numbered = [](int from, int number) { return at::full({1000}, 100 * from + number); };
  // Received in another order than sent: each direction has its own.
  for (int i = 0; i < 2; ++i) {
    expect_ok(links.send_forward(numbered(rank, i)));
    expect_ok(links.send_backward(numbered(rank, 10 + i)));
  }
  const at::Tensor received = at::empty({1000}, at::kLong);
  for (int i = 0; i < 2; ++i) {
    expect_ok(links.receive_backward(received));
    EXPECT_TRUE(at::equal(received, numbered(1 - rank, 10 + i)));
  }
  for (int i = 0; i < 2; ++i) {
    expect_ok(links.receive_forward(received));
    EXPECT_TRUE(at::equal(received, numbered(1 - rank, i)));
  }
  expect_ok(links.finish());
}

TEST(ParallelStateTest, TextsOfAllRanksComeInTheirOrder) {
  if (test::launched_ranks(2)) return;
  const ParallelState state = connected({1, 1, 1, 0, 1});
  const auto texts = state.of_all_ranks(state.world().rank() == 0 ? "one" : "");
  ASSERT_TRUE(texts.has_value());
  EXPECT_THAT(*texts, ElementsAre("one", ""));
}

TEST(TorchGuardTest, TurnsLibTorchsErrorIntoOneLine) {
  const Status status = libtorch::torch_guard([] {
    at::ones({2}).view({3});
    return Status();
  });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("shape '[3]' is invalid"));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

TEST(TorchGuardTest, PassesAStatusOn) {
  EXPECT_TRUE(libtorch::torch_guard([] { return Status(); }).ok());
  EXPECT_EQ(libtorch::torch_guard([] { return Status(StatusCode::kNotFound, "x"); }).message(),
            "x");
  EXPECT_EQ(libtorch::torch_guard([]() -> Status { throw std::bad_alloc(); }).code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace meg::parallel
