#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/generation_queue.h"
#include "libmeg/serving/http/http_server.h"
#include "libmeg/serving/megatron_api.h"
#include "libmeg/serving/openai/openai_api.h"
#include "libmeg/serving/text_request.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::serving {

/// How a text server answers.
struct TextServerOptions {
  HttpServerOptions http;
  RequestRules rules;
  int64_t max_queue = 256;  ///< Requests that may wait for the model; further ones get status 503.
  std::chrono::milliseconds request_timeout = std::chrono::seconds(600);  ///< Waiting included.
  uint64_t seed = 1234;                        ///< Seed for requests without random_seed.
  std::function<void(const RequestLog&)> log;  ///< As HttpService::log.
};

/// What is served.
struct ServedModel {
  std::string name;                                 ///< For /health.
  const tokenizer::Tokenizer* tokenizer = nullptr;  ///< Must outlive the server.
  std::unique_ptr<GenerationEngine> engine;
  OpenAiModel openai;
};

class ServerMetrics;

/// Text generation over HTTP: connections, Megatron's requests and answers, and the queue before
/// one engine.
class TextServer {
 public:
  /// Listens and answers from now on, on threads of its own. Errors: those of HttpServer::start.
  static Result<std::unique_ptr<TextServer>> start(TextServerOptions options, ServedModel model);

  /// Calls stop() with no grace period.
  ~TextServer();

  int port() const { return server_->port(); }

  /// See HttpServer::address().
  std::string address() const { return server_->address(); }

  /// The error that the engine cannot recover from, after which every request fails; OK until then.
  Status lost() const { return queue_.load().lost; }

  /// Accepts no more requests. Texts that are being generated may continue for `grace`; waiting
  /// requests are refused. Returns when the answers have been sent.
  void stop(std::chrono::milliseconds grace);

 private:
  TextServer(const TextServerOptions& options, ServedModel model);

  std::vector<HttpRoute> routes();
  HttpResponse health() const;
  HttpResponse metrics() const;

  const std::string name_;
  const double request_timeout_;  ///< Seconds.
  // They are in the order of use, so that the server's threads are gone before the others are.
  GenerationQueue queue_;
  std::unique_ptr<TextJobs> jobs_;
  MegatronApi api_;
  OpenAiApi openai_;
  std::unique_ptr<ServerMetrics> metrics_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace meg::serving
