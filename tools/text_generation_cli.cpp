// Sends prompts to a text generation server, one after another. Stands for Megatron-LM
// tools/text_generation_cli.py.

#include <fmt/core.h>
#include <httplib.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/terminal_text.h"
#include "libmeg/text/whitespace.h"
#include "tools/common/flags/flags.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::json;

constexpr time_t kAnswerSeconds = time_t{24} * 3600;  ///< The server has a timeout of its own.
constexpr time_t kFirstAnswerSeconds = 5;
constexpr std::string_view kEnd = "stop";
constexpr std::string_view kScheme = "http://";

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> read_address(const std::string& text) {
  std::string_view server = text;
  if (server.starts_with(kScheme)) {
    server.remove_prefix(kScheme.size());
    server = server.substr(0, server.find('/'));
  }
  const size_t colon = server.rfind(':');
  Address address;
  const char* const end = server.data() + server.size();
  const char* const digits = colon == std::string::npos ? end : server.data() + colon + 1;
  const auto [stop, error] = std::from_chars(digits, end, address.port);
  address.host = server.substr(0, colon);
  if (error != std::errc() || stop != end || address.port < 1 || address.port > 65535 ||
      address.host.empty() || address.host.find('/') != std::string::npos) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected HOST:PORT such as localhost:5000, found {}", text::printable(text));
  }
  if (address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

/// Empty at the end of input and where `stop` was typed.
std::optional<std::string> ask(std::string_view question) {
  fmt::print("{}", question);
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line) || text::trimmed(line) == kEnd) return std::nullopt;
  return line;
}

std::optional<int64_t> read_count(const std::string& line) {
  const std::string_view text = text::trimmed(line);
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

/// The sentence in an error's body: ours and flask_restful's are objects, Megatron's a string.
std::string error_message(const std::string& body) {
  const json answer = json::parse(body, nullptr, false);
  if (answer.is_string()) return answer.get<std::string>();
  if (answer.is_object() && answer.contains("message") && answer["message"].is_string()) {
    return answer["message"].get<std::string>();
  }
  return text::printable(body, 200);
}

void print_answer(const httplib::Response& response) {
  if (response.status != 200) {
    fmt::print("Error {}: {}\n", response.status,
               text::terminal_text(error_message(response.body)));
    return;
  }
  const json answer = json::parse(response.body, nullptr, false);
  if (!answer.is_object() || !answer["text"].is_array() || answer["text"].empty() ||
      !answer["text"][0].is_string()) {
    fmt::print("Error: expected an answer with a text, found {}\n",
               text::printable(response.body, 200));
    return;
  }
  fmt::print("Megatron Response: \n{}\n",
             text::terminal_text(answer["text"][0].get_ref<const std::string&>()));
}

Status no_answer(const std::string& server, httplib::Error error) {
  return make_error(StatusCode::kIoError, "{}: no server answers there ({})", server,
                    httplib::to_string(error));
}

/// A server that is busy may keep us waiting; any answer is one, Megatron's has no such path.
Status find_server(httplib::Client& client, const std::string& server) {
  client.set_read_timeout(kFirstAnswerSeconds);
  const httplib::Result result = client.Get("/health");
  client.set_read_timeout(kAnswerSeconds);
  if (result || result.error() == httplib::Error::Read) return {};
  return no_answer(server, result.error());
}

/// One prompt and its answer; false at the end.
Result<bool> converse(httplib::Client& client, const std::string& server) {
  const std::optional<std::string> prompt = ask("Enter prompt: ");
  if (!prompt.has_value()) return false;
  const std::optional<std::string> line = ask("Enter number of tokens to generate: ");
  if (!line.has_value()) return false;
  const std::optional<int64_t> count = read_count(*line);
  if (!count.has_value()) {
    fmt::print("Error: expected a number of tokens, found {}\n", text::printable(*line));
    return true;
  }
  const json request = {{"prompts", {*prompt}}, {"tokens_to_generate", *count}};
  const httplib::Result result = client.Put(
      "/api", request.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
  if (!result) return no_answer(server, result.error());
  print_answer(*result);
  return true;
}

// NOLINTNEXTLINE(bugprone-exception-escape): not the program's own main(), run_program() catches.
int main(int argc, const char* const* argv) {
  std::string server;
  Flags flags("text_generation_cli",
              "sends prompts to a text generation server and prints its answers, until `stop` or "
              "the end of the input.");
  flags.examples(
      {"text_generation_cli localhost:5000", "text_generation_cli http://127.0.0.1:5000"});
  flags.positional("HOST:PORT", &server, "address of run_text_generation_server");
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  const Result<Address> address = read_address(server);
  if (!address.has_value()) return fail_usage(address.error());
  httplib::Client client(address->host, address->port);
  if (const Status status = find_server(client, server); !status.ok()) return fail(status);
  for (;;) {
    const Result<bool> more = converse(client, server);
    if (!more.has_value()) {
      fmt::print("\n");
      return fail(more.error());
    }
    if (!*more) break;
  }
  fmt::print("\n");
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
