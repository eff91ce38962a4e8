#include "libmeg/serving/text_server.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "libmeg/serving/internal/page.h"
#include "libmeg/serving/internal/server_metrics.h"
#include "libmeg/serving/internal/text_jobs.h"

namespace meg::serving {
namespace {

// The page's own inline script and style, requests to this server, and nothing else: a generated
// text that is shown in it can load or send nothing. No other site may frame it.
constexpr char kPagePolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; img-src data:; frame-ancestors 'none'";

HttpResponse page_response() {
  return {.body = std::string(page_html()),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", kPagePolicy}}};
}

}  // namespace

Result<std::unique_ptr<TextServer>> TextServer::start(TextServerOptions options,
                                                      ServedModel model) {
  std::unique_ptr<TextServer> text(new TextServer(options, std::move(model)));
  HttpService service;
  service.routes = text->routes();
  std::vector<std::string> paths;
  for (const HttpRoute& route : service.routes) {
    if (!route.is_prefix) paths.push_back(route.path);
  }
  text->metrics_ = std::make_unique<ServerMetrics>(std::move(paths));
  service.log = [server = text.get(), log = std::move(options.log)](const RequestLog& line) {
    server->metrics_->count(line);
    if (log) log(line);
  };
  MEG_ASSIGN_OR_RETURN(text->server_,
                       HttpServer::start(std::move(options.http), std::move(service)));
  return text;
}

std::vector<HttpRoute> TextServer::routes() {
  const auto page = [](const HttpCall&) { return page_response(); };
  const auto health = [this](const HttpCall&) { return this->health(); };
  const auto metrics = [this](const HttpCall&) { return this->metrics(); };
  const auto api = [this](const HttpCall& call) { return api_.answer(call); };
  std::vector<HttpRoute> routes = {
      {.methods = {"GET"}, .path = "/", .is_open = true, .handler = page},
      {.methods = {"GET"}, .path = "/health", .is_open = true, .handler = health},
      {.methods = {"GET"}, .path = "/metrics", .handler = metrics},
      {.methods = {"PUT", "POST"}, .path = "/api", .takes_json = true, .handler = api},
  };
  std::ranges::move(openai_.routes(), std::back_inserter(routes));
  return routes;
}

TextServer::TextServer(const TextServerOptions& options, ServedModel model)
    : name_(std::move(model.name)),
      request_timeout_(std::chrono::duration<double>(options.request_timeout).count()),
      queue_(std::move(model.engine), options.max_queue),
      jobs_(std::make_unique<TextJobs>(*model.tokenizer, queue_, options.request_timeout,
                                       options.seed)),
      api_(*jobs_, options.rules),
      openai_(*jobs_, options.rules, std::move(model.openai)) {}

TextServer::~TextServer() {
  if (server_ != nullptr) stop(std::chrono::milliseconds(0));
}

/// A step that takes longer than a request may keeps every request from an answer, and a model that
/// failed on the last request will hardly do better on the next, so a load balancer should send its
/// requests elsewhere.
HttpResponse TextServer::health() const {
  const GenerationQueue::Load load = queue_.load();
  const bool is_stalled = load.step_seconds >= request_timeout_;
  nlohmann::json health;
  health["status"] = is_stalled ? "stalled" : load.failure.ok() ? "ok" : "failing";
  if (!load.failure.ok()) health["error"] = load.failure.message();
  health["model"] = name_;
  health["queue"] = load.waiting;
  health["queued_texts"] = load.waiting_texts;
  health["active"] = load.active;
  health["beam_searches"] = load.beam_searches;
  health["step_seconds"] = load.step_seconds;
  // The name is that of a folder, which need not be UTF-8.
  return {.status = !is_stalled && load.failure.ok() ? 200 : 503,
          .body = health.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n"};
}

HttpResponse TextServer::metrics() const {
  return {.body = metrics_->text(queue_.load()),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

/// No further requests first; then the model finishes what it is at, which answers the tickets that
/// connections wait for; then those answers go out.
void TextServer::stop(std::chrono::milliseconds grace) {
  server_->close_door();
  queue_.stop(grace);
  server_->stop();
}

}  // namespace meg::serving
