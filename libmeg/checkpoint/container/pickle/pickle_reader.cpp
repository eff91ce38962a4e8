#include "libmeg/checkpoint/container/pickle/pickle_reader.h"

#include <fmt/core.h>

#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_input.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"
#include "libmeg/checkpoint/container/pickle/pickle_text.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

namespace {

constexpr int kHighestProtocol = 5;

/// Reads opcodes with their arguments and hands them to the machine.
///
/// One loop over opcodes, and one switch that is split by families: run() hands what it does not
/// know to run_number(), that one to run_text() and so on, and the last one refuses what no
/// protocol has. All bytes are in memory, so framing (protocol 4) changes nothing and is only
/// checked.
class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& name, PickleGraph* graph,
               size_t max_values)
      : name_(name), input_(bytes), machine_(graph, max_values) {}

  Result<PickleStream> read();

 private:
  Status run(PickleOpcode opcode);
  Status run_number(PickleOpcode opcode);
  Status run_text(PickleOpcode opcode);
  Status run_call(PickleOpcode opcode);
  Status run_memo(PickleOpcode opcode);
  Status run_frame_or_fail(PickleOpcode opcode);

  template <class Number>
  Status push_number(std::string_view what);

  /// Python 2's str: text where it is UTF-8, else bytes.
  Status push_python2_string(std::string text);
  Status push_utf8(const Result<std::string_view>& bytes);
  Status push_bytes(PickleKind kind, const Result<std::string_view>& bytes);
  Status push_int_line();
  Status push_long_line();
  Status push_float_line();
  Status push_binary_float();
  Status push_string_line();
  Status push_unicode_line();
  Status read_protocol();
  Status read_frame();
  Status read_global();
  Status read_instance();
  Result<std::pair<std::string, std::string>> module_and_name(std::string_view what);
  Result<uint32_t> index_line(std::string_view what);

  const std::string& name_;
  PickleInput input_;
  PickleMachine machine_;
  int protocol_ = 0;
};

Result<PickleStream> PickleReader::read() {
  while (true) {
    const size_t at = input_.position();
    Result<PickleOpcode> opcode = input_.number<PickleOpcode>("opcode");
    Status status = opcode.status();
    if (status.ok() && *opcode == PickleOpcode::kStop) {
      const Result<PickleId> root = machine_.take("STOP");
      if (root) return PickleStream{*root, input_.position()};
      status = root.error();
    } else if (status.ok()) {
      status = run(*opcode);
    }
    if (!status.ok()) return status.with_prefix(fmt::format("{}: byte {}", name_, at));
  }
}

// ---- Arguments ----

Result<std::pair<std::string, std::string>> PickleReader::module_and_name(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const std::string_view module_line, input_.line(what));
  MEG_ASSIGN_OR_RETURN(const std::string_view name_line, input_.line(what));
  MEG_ASSIGN_OR_RETURN(std::string module, decode_utf8(module_line));
  MEG_ASSIGN_OR_RETURN(std::string name, decode_utf8(name_line));
  return std::pair(std::move(module), std::move(name));
}

Result<uint32_t> PickleReader::index_line(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const std::string_view digits, input_.line(what));
  MEG_ASSIGN_OR_RETURN(const std::string bytes, twos_complement_of_decimal(digits));
  const int64_t index = bytes.size() > sizeof(int64_t) ? -1 : small_twos_complement(bytes);
  if (index < 0 || index > UINT32_MAX) {
    return make_error(StatusCode::kCorruption, "{}: expected a memo index below 2^32, found {}",
                      what, text::printable(digits));
  }
  return static_cast<uint32_t>(index);
}

// ---- Opcodes ----

Status PickleReader::run(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kNone:
      return machine_.push(machine_.graph().add_none());
    case PickleOpcode::kNewTrue:
      return machine_.push(machine_.graph().add_bool(true));
    case PickleOpcode::kNewFalse:
      return machine_.push(machine_.graph().add_bool(false));
    case PickleOpcode::kMark:
      return machine_.mark();
    case PickleOpcode::kPop:
      return machine_.pop();
    case PickleOpcode::kPopMark:
      return machine_.pop_mark();
    case PickleOpcode::kDup:
      return machine_.dup();
    case PickleOpcode::kEmptyTuple:
      return machine_.tuple_of(0);
    case PickleOpcode::kTuple1:
      return machine_.tuple_of(1);
    case PickleOpcode::kTuple2:
      return machine_.tuple_of(2);
    case PickleOpcode::kTuple3:
      return machine_.tuple_of(3);
    case PickleOpcode::kTuple:
      return machine_.collect(PickleKind::kTuple);
    case PickleOpcode::kEmptyList:
      return machine_.push(machine_.graph().add_list());
    case PickleOpcode::kList:
      return machine_.collect(PickleKind::kList);
    case PickleOpcode::kAppend:
      return machine_.append();
    case PickleOpcode::kAppends:
      return machine_.appends();
    case PickleOpcode::kEmptyDict:
      return machine_.push(machine_.graph().add_dict());
    case PickleOpcode::kDict:
      return machine_.collect(PickleKind::kDict);
    case PickleOpcode::kSetItem:
      return machine_.set_item();
    case PickleOpcode::kSetItems:
      return machine_.set_items();
    case PickleOpcode::kEmptySet:
      return machine_.push_text(PickleKind::kSet, "");
    case PickleOpcode::kAddItems:
      return machine_.add_items();
    case PickleOpcode::kFrozenSet:
      return machine_.collect(PickleKind::kFrozenSet);
    default:
      return run_number(opcode);
  }
}

Status PickleReader::run_number(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kInt:
      return push_int_line();
    case PickleOpcode::kLong:
      return push_long_line();
    case PickleOpcode::kFloat:
      return push_float_line();
    case PickleOpcode::kBinInt:
      return push_number<int32_t>("BININT");
    case PickleOpcode::kBinInt1:
      return push_number<uint8_t>("BININT1");
    case PickleOpcode::kBinInt2:
      return push_number<uint16_t>("BININT2");
    case PickleOpcode::kBinFloat:
      return push_binary_float();
    case PickleOpcode::kLong1: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint8_t>("LONG1"));
      return machine_.push_twos_complement(bytes);
    }
    case PickleOpcode::kLong4: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint32_t>("LONG4"));
      return machine_.push_twos_complement(bytes);
    }
    default:
      return run_text(opcode);
  }
}

Status PickleReader::run_text(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kString:
      return push_string_line();
    case PickleOpcode::kBinString: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes, input_.counted<uint32_t>("BINSTRING"));
      return push_python2_string(std::string(bytes));
    }
    case PickleOpcode::kShortBinString: {
      MEG_ASSIGN_OR_RETURN(const std::string_view bytes,
                           input_.counted<uint8_t>("SHORT_BINSTRING"));
      return push_python2_string(std::string(bytes));
    }
    case PickleOpcode::kUnicode:
      return push_unicode_line();
    case PickleOpcode::kShortBinUnicode:
      return push_utf8(input_.counted<uint8_t>("SHORT_BINUNICODE"));
    case PickleOpcode::kBinUnicode:
      return push_utf8(input_.counted<uint32_t>("BINUNICODE"));
    case PickleOpcode::kBinUnicode8:
      return push_utf8(input_.counted<uint64_t>("BINUNICODE8"));
    case PickleOpcode::kShortBinBytes:
      return push_bytes(PickleKind::kBytes, input_.counted<uint8_t>("SHORT_BINBYTES"));
    case PickleOpcode::kBinBytes:
      return push_bytes(PickleKind::kBytes, input_.counted<uint32_t>("BINBYTES"));
    case PickleOpcode::kBinBytes8:
      return push_bytes(PickleKind::kBytes, input_.counted<uint64_t>("BINBYTES8"));
    case PickleOpcode::kByteArray8:
      return push_bytes(PickleKind::kByteArray, input_.counted<uint64_t>("BYTEARRAY8"));
    default:
      return run_call(opcode);
  }
}

Status PickleReader::run_call(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kGlobal:
      return read_global();
    case PickleOpcode::kStackGlobal:
      return machine_.stack_global();
    case PickleOpcode::kBinPersId:
      return machine_.persistent();
    case PickleOpcode::kReduce:
      return machine_.call(PickleCallForm::kReduce);
    case PickleOpcode::kNewObj:
      return machine_.call(PickleCallForm::kNewObj);
    case PickleOpcode::kNewObjEx:
      return machine_.call(PickleCallForm::kNewObjEx);
    case PickleOpcode::kInst:
      return read_instance();
    case PickleOpcode::kObj:
      return machine_.call_marked();
    case PickleOpcode::kBuild:
      return machine_.build();
    default:
      return run_memo(opcode);
  }
}

Status PickleReader::run_memo(PickleOpcode opcode) {
  const bool is_put = opcode == PickleOpcode::kPut || opcode == PickleOpcode::kBinPut ||
                      opcode == PickleOpcode::kLongBinPut;
  uint32_t index = 0;
  switch (opcode) {
    case PickleOpcode::kMemoize:
      return machine_.memoize();
    case PickleOpcode::kPut:
    case PickleOpcode::kGet: {
      MEG_ASSIGN_OR_RETURN(index, index_line(is_put ? "PUT" : "GET"));
      break;
    }
    case PickleOpcode::kBinPut:
    case PickleOpcode::kBinGet: {
      MEG_ASSIGN_OR_RETURN(index, input_.number<uint8_t>("memo index"));
      break;
    }
    case PickleOpcode::kLongBinPut:
    case PickleOpcode::kLongBinGet: {
      MEG_ASSIGN_OR_RETURN(index, input_.number<uint32_t>("memo index"));
      break;
    }
    default:
      return run_frame_or_fail(opcode);
  }
  return is_put ? machine_.put(index) : machine_.get(index);
}

Status PickleReader::run_frame_or_fail(PickleOpcode opcode) {
  switch (opcode) {
    case PickleOpcode::kProto:
      return read_protocol();
    case PickleOpcode::kFrame:
      return read_frame();
    case PickleOpcode::kPersId:
      return make_error(StatusCode::kUnsupported,
                        "PERSID: expected binary persistent ids, found one as text");
    case PickleOpcode::kExt1:
    case PickleOpcode::kExt2:
    case PickleOpcode::kExt4:
      return make_error(StatusCode::kUnsupported,
                        "EXT: expected classes by name, found an extension code");
    case PickleOpcode::kNextBuffer:
    case PickleOpcode::kReadOnlyBuffer:
      return make_error(StatusCode::kUnsupported,
                        "NEXT_BUFFER: expected all data in the pickle, found an out-of-band "
                        "buffer");
    default:
      return make_error(StatusCode::kCorruption,
                        "opcode: expected one of protocols 0 to 5, found 0x{:02x}",
                        static_cast<unsigned>(opcode));
  }
}

// ---- Opcodes with arguments of their own ----

template <class Number>
Status PickleReader::push_number(std::string_view what) {
  MEG_ASSIGN_OR_RETURN(const Number number, input_.number<Number>(what));
  return machine_.push(machine_.graph().add_int(number));
}

Status PickleReader::push_binary_float() {
  MEG_ASSIGN_OR_RETURN(const auto big_endian, input_.number<uint64_t>("BINFLOAT"));
  const uint64_t bits = __builtin_bswap64(big_endian);
  return machine_.push(machine_.graph().add_float(std::bit_cast<double>(bits)));
}

Status PickleReader::push_int_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view digits, input_.line("INT"));
  // Protocol 0 writes False and True so, and the numbers 0 and 1 without the leading zero.
  if (digits == "00" || digits == "01") {
    return machine_.push(machine_.graph().add_bool(digits == "01"));
  }
  MEG_ASSIGN_OR_RETURN(const std::string bytes, twos_complement_of_decimal(digits));
  return machine_.push_twos_complement(bytes);
}

Status PickleReader::push_long_line() {
  MEG_ASSIGN_OR_RETURN(std::string_view digits, input_.line("LONG"));
  if (digits.ends_with('L')) digits.remove_suffix(1);
  MEG_ASSIGN_OR_RETURN(const std::string bytes, twos_complement_of_decimal(digits));
  return machine_.push_twos_complement(bytes);
}

Status PickleReader::push_float_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view digits, input_.line("FLOAT"));
  MEG_ASSIGN_OR_RETURN(const double value, decode_float(digits));
  return machine_.push(machine_.graph().add_float(value));
}

Status PickleReader::push_string_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view literal, input_.line("STRING"));
  MEG_ASSIGN_OR_RETURN(std::string text, decode_quoted_string(literal));
  return push_python2_string(std::move(text));
}

Status PickleReader::push_python2_string(std::string text) {
  // Python 2 did not say which of both it meant; torch reads such strings as UTF-8.
  const bool is_text = text::find_invalid_utf8(text) == std::string_view::npos;
  return machine_.push_text(is_text ? PickleKind::kString : PickleKind::kBytes, std::move(text));
}

Status PickleReader::push_unicode_line() {
  MEG_ASSIGN_OR_RETURN(const std::string_view escaped, input_.line("UNICODE"));
  MEG_ASSIGN_OR_RETURN(std::string text, decode_raw_unicode_escape(escaped));
  return machine_.push_text(PickleKind::kString, std::move(text));
}

Status PickleReader::push_utf8(const Result<std::string_view>& bytes) {
  if (!bytes) return bytes.error();
  MEG_ASSIGN_OR_RETURN(std::string text, decode_utf8(*bytes));
  return machine_.push_text(PickleKind::kString, std::move(text));
}

Status PickleReader::push_bytes(PickleKind kind, const Result<std::string_view>& bytes) {
  if (!bytes) return bytes.error();
  return machine_.push_text(kind, std::string(*bytes));
}

Status PickleReader::read_protocol() {
  MEG_ASSIGN_OR_RETURN(const auto protocol, input_.number<uint8_t>("PROTO"));
  if (protocol > kHighestProtocol) {
    return make_error(StatusCode::kUnsupported, "PROTO: expected at most {}, found {}",
                      kHighestProtocol, protocol);
  }
  protocol_ = protocol;
  return Status();
}

Status PickleReader::read_frame() {
  MEG_ASSIGN_OR_RETURN(const auto size, input_.number<uint64_t>("FRAME"));
  if (size > input_.remaining()) {
    return make_error(StatusCode::kCorruption, "FRAME: expected {} bytes, found {}", size,
                      input_.remaining());
  }
  return Status();
}

Status PickleReader::read_global() {
  MEG_ASSIGN_OR_RETURN(auto names, module_and_name("GLOBAL"));
  return machine_.global(std::move(names.first), std::move(names.second), protocol_ >= 4);
}

Status PickleReader::read_instance() {
  MEG_ASSIGN_OR_RETURN(auto names, module_and_name("INST"));
  return machine_.call_marked(std::move(names.first), std::move(names.second));
}

}  // namespace

Result<PickleStream> read_pickle(std::span<const std::byte> bytes, const std::string& name,
                                 PickleGraph* graph, size_t max_values) {
  return PickleReader(bytes, name, graph, max_values).read();
}

}  // namespace meg::checkpoint
