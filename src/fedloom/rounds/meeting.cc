// Members of a crew meet: each brings the parts that it has computed, and takes those of all.
//
// What `meetings.Meetings` does in Python, without the interpreter, which only one thread may use at
// a time: a meeting takes microseconds, where a round of a small model takes a tenth of a
// millisecond. `native_meetings.py` compiles this file where there is a compiler.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

namespace {

constexpr double kSoon = 2e-3;  // seconds within which the others come as a rule ...
constexpr double kPart = 0.05, kPause = 0.05;  // ... and later it sleeps for a part, or so long
constexpr double kStopped = 1;  // seconds within which it looks again, but where the process was stopped
constexpr double kIdle = 0.05;  // nobody computes where less than so many cores are used

struct alignas(64) Turn {  // of one member; nobody else's is in the same line of the cache
  std::atomic<int64_t> turn{0};
};

// There are two sets of arrays: nobody comes to the turn after the next before all have come to the
// next one, and then all have taken what they needed of this one.
struct Meeting {
  Meeting(int64_t size, ffi::RemainingArgs& like) : turns(size) {
    for (auto& set : arrays)
      for (size_t i = 1; i < like.size(); ++i) set.emplace_back(like.get<ffi::AnyBuffer>(i)->size_bytes());
  }

  // Whether this many bytes of this many arrays change hands, as those that the others bring.
  bool IsOf(ffi::RemainingArgs& args, ffi::RemainingRets& rets) {
    const size_t count = arrays[0].size();
    bool same = args.size() == count + 1 && rets.size() == count;
    for (size_t i = 0; same && i < count; ++i)
      same = args.get<ffi::AnyBuffer>(i + 1)->size_bytes() == arrays[0][i].size() &&
             (*rets.get<ffi::AnyBuffer>(i))->size_bytes() == arrays[0][i].size();
    return same;
  }

  std::vector<Turn> turns;  // to which each member has come
  std::vector<std::vector<char>> arrays[2];
};

// One crew works at a time, and its members run one program. Neither is ever destroyed: threads may
// be here still when the process ends.
std::mutex& lock = *new std::mutex;
auto& meetings = *new std::map<int64_t, std::shared_ptr<Meeting>>;  // by place in the program
std::atomic<bool> failed{false};  // whether a member has, so that nobody is to wait for it
std::atomic<double> patience{60};  // seconds for which one waits while nobody computes

// The member who asks keeps it: nothing that is cleared is taken from under somebody.
std::shared_ptr<Meeting> MeetingAt(int64_t place, int64_t size, ffi::RemainingArgs& like) {
  std::lock_guard<std::mutex> held(lock);
  auto& meeting = meetings[place];
  if (!meeting) meeting = std::make_shared<Meeting>(size, like);
  return meeting;
}

double SecondsOfCores() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Until all members have come to this turn; false: in vain. While the process is stopped nobody comes.
bool AllCome(Meeting& meeting, int64_t turn) {
  auto come = [&](const Turn& member) { return member.turn.load(std::memory_order_acquire) >= turn; };
  const auto began = Clock::now();
  double asked = 0, looked = 0, used = SecondsOfCores();
  while (!std::all_of(meeting.turns.begin(), meeting.turns.end(), come)) {
    if (failed) return false;
    const double waited = Seconds(Clock::now() - began).count();
    if (waited - looked > kStopped) asked += waited - looked;
    looked = waited;
    if (waited - asked > patience) {
      if (SecondsOfCores() - used < kIdle * (waited - asked)) return false;
      asked = waited;
      used = SecondsOfCores();
    }
    if (waited < kSoon) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(Seconds(std::min(kPart * waited, kPause)));
    }
  }
  return true;
}

ffi::Error CannotMeet() { return ffi::Error::Internal("CannotMeetError"); }

ffi::Error Share(int64_t size, int64_t place, ffi::RemainingArgs& args, ffi::RemainingRets& rets) {
  const int64_t rank = *args.get<ffi::AnyBuffer>(0)->typed_data<int32_t>();
  const auto kept = MeetingAt(place, size, args);
  Meeting& meeting = *kept;
  if (!meeting.IsOf(args, rets)) return CannotMeet();
  auto& own = meeting.turns[rank].turn;
  const int64_t turn = own.load(std::memory_order_relaxed) + 1;
  auto& arrays = meeting.arrays[turn % 2];
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto part = *args.get<ffi::AnyBuffer>(i + 1);
    const int64_t count = part.dimensions()[0], each = part.size_bytes() / count;
    const int64_t first = rank * count / size, last = (rank + 1) * count / size;
    std::memcpy(arrays[i].data() + first * each,
                static_cast<const char*>(part.untyped_data()) + first * each, (last - first) * each);
  }
  own.store(turn, std::memory_order_release);
  if (!AllCome(meeting, turn)) return CannotMeet();
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto whole = *rets.get<ffi::AnyBuffer>(i);
    std::memcpy(whole->untyped_data(), arrays[i].data(), arrays[i].size());
  }
  return ffi::Error::Success();
}

ffi::Error Meet(int64_t size, int64_t place, ffi::RemainingArgs args, ffi::RemainingRets rets) {
  try {
    return Share(size, place, args, rets);
  } catch (const std::bad_alloc&) {  // one thread needs less memory
    return CannotMeet();
  }
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(fedloom_meet, Meet,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("size")
                                  .Attr<int64_t>("place")
                                  .RemainingArgs()
                                  .RemainingRets());

// Nobody has come anywhere, and nobody has failed; called while no member works.
extern "C" void fedloom_clear(double seconds) {
  std::lock_guard<std::mutex> held(lock);
  meetings.clear();
  failed = false;
  patience = seconds;
}

extern "C" void fedloom_fail() { failed = true; }
