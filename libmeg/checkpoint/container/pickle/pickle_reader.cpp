#include "libmeg/checkpoint/container/pickle/pickle_reader.h"

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/pickle/internal/pickle_input.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_literals.h"
#include "libmeg/checkpoint/container/pickle/internal/pickle_machine.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"
#include "libmeg/checkpoint/container/pickle/pickle_text.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {

namespace {

constexpr int kHighestProtocol = 5;

/// Reads opcodes with their arguments and hands them to the machine.
///
/// One loop over opcodes, and one switch that is split by families: run() hands what it does not
/// know to run_literal(), that one to run_call() and so on, and the last one refuses what no
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
  Status run_literal(PickleOpcode opcode);
  Status run_call(PickleOpcode opcode);
  Status run_memo(PickleOpcode opcode);
  Status run_frame_or_fail(PickleOpcode opcode);

  Status read_protocol();
  Status read_frame();
  Status read_global();
  Status read_instance();
  Result<std::pair<std::string, std::string>> module_and_name(std::string_view what);
  Result<uint32_t> index_line(std::string_view what);

  const std::string& name_;
  PickleInput input_;
  PickleMachine machine_;
  PickleLiterals literals_{input_, machine_};
  int protocol_ = 0;
};

Result<PickleStream> PickleReader::read() {
  while (true) {
    // The position of the opcode, not of its argument, as in pickletools.dis.
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
  // Go through integers of any length: more digits than an int64 has must not wrap around to an
  // index.
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
      return run_literal(opcode);
  }
}

Status PickleReader::run_literal(PickleOpcode opcode) {
  std::optional<Status> done = literals_.run(opcode);
  return done.has_value() ? *std::move(done) : run_call(opcode);
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
  // A frame's length is only what an unpickler of streams reads ahead; nothing is cut by it here.
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
