#include "libmeg/serving/text_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/serving/stand_in_engine.h"

namespace meg::serving {
namespace {

using test::StandInEngine;
using test::StandInOptions;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Recovers from no error.
class FragileEngine : public StandInEngine {
 public:
  using StandInEngine::StandInEngine;

  Result<std::vector<GenerationEvent>> step() override {
    auto events = StandInEngine::step();
    failure_ = events.status();
    if (!events.has_value()) lost_ = events.error();
    return events;
  }

  Status lost() const override { return lost_; }

  Status failure() const override { return failure_; }

 private:
  Status lost_, failure_;
};

class TextServerTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = std::string(MEG_SOURCE_DIR) + "/testdata/tokenizer";
    tokenizer::TokenizerOptions files;
    files.tokenizer_type = "GPT2BPETokenizer";
    files.vocab_file = folder + "/vocab.json";
    files.merge_file = folder + "/merges.txt";
    auto opened = tokenizer::open_tokenizer(files);
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    tokenizer_ = std::move(*opened);
    engine_.vocab_size = tokenizer_->vocab_size();
    engine_.eod = tokenizer_->eod().value_or(-1);
  }

  void start() {
    options_.http.port = 0;
    auto started = TextServer::start(
        options_, {"a\xffmodel", tokenizer_.get(), std::make_unique<FragileEngine>(engine_), {}});
    ASSERT_TRUE(started.has_value()) << started.error().message();
    server_ = std::move(*started);
  }

  /// The whole answer to one request on a connection of its own; empty where none comes in 20 s.
  std::string ask(const std::string& request, const std::string& body = "") {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string bytes = request + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                              "Content-Type: application/json\r\n" +
                              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string answer;
    pollfd ready{socket, POLLIN, 0};
    char part[4096];
    for (ssize_t n = 1; n > 0 && ::poll(&ready, 1, 20000) == 1;) {
      n = ::recv(socket, part, sizeof part, 0);
      if (n > 0) answer.append(part, static_cast<size_t>(n));
    }
    ::close(socket);
    return answer;
  }

  static nlohmann::json body_of(const std::string& answer) {
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  StandInOptions engine_;
  TextServerOptions options_;
  std::unique_ptr<TextServer> server_;
};

TEST_F(TextServerTest, AnswersInMegatronsForm) {
  start();
  const std::string answer = ask("PUT /api", R"({"prompts":["a b"],"tokens_to_generate":3})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  const nlohmann::json body = body_of(answer);
  ASSERT_TRUE(body.contains("text")) << answer;
  EXPECT_THAT(body["text"][0].get<std::string>(), StartsWith("a b"));
}

TEST_F(TextServerTest, HealthNamesTheModelInValidUtf8) {
  start();
  const std::string answer = ask("GET /health");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  const nlohmann::json health = body_of(answer);
  EXPECT_EQ(health["status"], "ok");
  EXPECT_EQ(health["model"], "a\xEF\xBF\xBDmodel");
  EXPECT_EQ(health["queue"], 0);
}

TEST_F(TextServerTest, ServesThePage) {
  start();
  EXPECT_THAT(ask("GET /"), HasSubstr("<html"));
}

TEST_F(TextServerTest, RulesAndLogAreThoseOfTheOptions) {
  options_.rules.max_tokens_to_generate = 5;
  std::atomic<int> logged = 0;
  options_.log = [&](const RequestLog&) { ++logged; };
  start();
  EXPECT_THAT(ask("PUT /api", R"({"prompts":["a"],"tokens_to_generate":6})"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(logged, 1);
}

TEST_F(TextServerTest, TellsWhatTheEngineIsLostBy) {
  engine_.failing_step = 0;
  start();
  EXPECT_TRUE(server_->lost().ok());
  EXPECT_THAT(ask("PUT /api", R"({"prompts":["a"],"tokens_to_generate":3})"),
              StartsWith("HTTP/1.1 5"));
  EXPECT_FALSE(server_->lost().ok());
}

TEST_F(TextServerTest, HealthSaysThatTheModelFailsUntilARequestIsWell) {
  engine_.failing_step = 0;
  start();
  for (const bool fails : {true, false}) {
    ask("PUT /api", R"({"prompts":["a"],"tokens_to_generate":3})");
    const std::string answer = ask("GET /health");
    EXPECT_THAT(answer, StartsWith(fails ? "HTTP/1.1 503" : "HTTP/1.1 200"));
    const nlohmann::json health = body_of(answer);
    EXPECT_EQ(health["status"], fails ? "failing" : "ok");
    EXPECT_EQ(health.value("error", ""), fails ? "the step failed" : "");
  }
}

TEST_F(TextServerTest, StoppingAnswersTheRequestThatRuns) {
  engine_.step_microseconds = 20000;
  start();
  std::string answer;
  std::thread client(
      [&] { answer = ask("PUT /api", R"({"prompts":["a"],"tokens_to_generate":40})"); });
  // Stopped only once the engine has the request: before, refusing it would be right.
  while (body_of(ask("GET /health")).value("active", 0) == 0) std::this_thread::yield();
  server_->stop(std::chrono::seconds(20));
  client.join();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(TextServerTest, PortInUseIsAnError) {
  start();
  TextServerOptions same = options_;
  same.http.port = server_->port();
  const auto second = TextServer::start(
      same, {"b", tokenizer_.get(), std::make_unique<StandInEngine>(engine_), {}});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace meg::serving
