#pragma once

#include <cstdint>
#include <string>

namespace meg::serving {

/// The log entry of one request.
struct RequestLog {
  std::string client;  ///< Address and port.
  std::string method;  ///< Empty if the request could not be read.
  std::string path;
  int status = 0;
  double seconds = 0;  ///< From the first byte of the request until its answer is there.
  double first_token_seconds = 0;  ///< Of a stream; 0: there was none.
  int64_t prompts = 0;
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;
  std::string first_prompt;  ///< Empty if it should not be logged.
  std::string note;          ///< Such as why a body ended early.
};

/// One line without its newline, such as
/// `2026-11-21 20:10:03 127.0.0.1:40312 PUT /api 200 812.4 ms prompts 1 tokens 2+64 "Hello world"`;
/// local time; texts from the client are truncated and escaped.
std::string log_line(const RequestLog& request);

}  // namespace meg::serving
