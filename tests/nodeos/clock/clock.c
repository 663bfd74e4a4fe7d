// A wall clock that begins in the past and runs fast, for one process: load it
// with LD_PRELOAD. A node that makes a block every half second of its own time
// makes a history in seconds then, and its blocks are old, as history is.
//
//   CLOCK_BEGIN   where it begins, in seconds since 1970
//   CLOCK_SPEED   how many seconds go by in one
//
// The monotonic clock stays what it is: only timers that are set for a time of
// day have to fire sooner. They are all behind timerfd, where the two kinds
// cannot be told apart; the other kind fires early, and is then set again.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static int64_t begin, origin, speed; // nanoseconds, but for the speed
static int (*system_gettime)(clockid_t, struct timespec *);
static int (*system_settime)(int, int, const struct itimerspec *, struct itimerspec *);

static int64_t from(const struct timespec *t) { return t->tv_sec * 1000000000LL + t->tv_nsec; }

static struct timespec to(int64_t ns) { return (struct timespec){ns / 1000000000LL, ns % 1000000000LL}; }

static int64_t number(const char *name) {
  const char *text = getenv(name);
  int64_t n = text ? atoll(text) : 0;
  if (n < 1) abort(); // a clock that stands still would hang the node
  return n;
}

// setup runs at the first look at the clock, which other libraries take before
// anything that this one could ask to be run first.
static void setup(void) {
  struct timespec now;
  system_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  system_settime = dlsym(RTLD_NEXT, "timerfd_settime");
  speed = number("CLOCK_SPEED");
  begin = number("CLOCK_BEGIN") * 1000000000LL;
  system_gettime(CLOCK_REALTIME, &now);
  origin = from(&now);
}

int clock_gettime(clockid_t id, struct timespec *out) {
  if (!origin) setup();
  int failed = system_gettime(id, out);
  if (!failed && id == CLOCK_REALTIME) *out = to(begin + (from(out) - origin) * speed);
  return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  if (!failed) *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return failed;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *set, struct itimerspec *old) {
  if (!origin) setup();
  struct itimerspec sooner = *set;
  if (!(flags & TFD_TIMER_ABSTIME) && from(&set->it_value) > 0) sooner.it_value = to(from(&set->it_value) / speed + 1);
  return system_settime(fd, flags, &sooner, old);
}
