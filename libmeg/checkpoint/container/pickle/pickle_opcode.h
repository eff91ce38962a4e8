#pragma once

#include <cstddef>
#include <cstdint>

namespace meg::checkpoint {

/// The opcodes of pickle protocols 0 to 5, named as in CPython's Lib/pickletools.py.
enum class PickleOpcode : uint8_t {
  // Protocol 0: arguments are lines of text.
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kLong = 'L',
  kNone = 'N',
  kPersId = 'P',
  kReduce = 'R',
  kString = 'S',
  kUnicode = 'V',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kGet = 'g',
  kInst = 'i',
  kList = 'l',
  kPut = 'p',
  kSetItem = 's',
  kTuple = 't',
  // Protocol 1.
  kPopMark = '1',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinPersId = 'Q',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItems = 'u',
  kObj = 'o',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  // Protocol 2.
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  // Protocol 3.
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  // Protocol 4.
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  // Protocol 5.
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadOnlyBuffer = 0x98,
};

/// A longer pickle is not read or written. Those of a checkpoint hold names and shapes only.
inline constexpr size_t kMaxPickleBytes = size_t{64} << 20;

/// A pickle with more values (or entries on its stack or in its memo) is not read.
inline constexpr size_t kMaxPickleNodes = size_t{4} << 20;

}  // namespace meg::checkpoint
