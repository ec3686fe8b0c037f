// watch.c: the watchdog of Envoy's workers. It is a C thread: a Go thread that wakes every few milliseconds also wakes others, which took a tenth of the
// time of slow streams.
#define _GNU_SOURCE
#include "abi.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "_cgo_export.h"

enum { LOOK_MS = 5, IDLE_LOOKS = 200 };

dm_visit dm_visits[MAX_WORKERS];
uint32_t dm_watching;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int workers;
static uint64_t max_hold_ns;

static struct {
  uint64_t visits, since;  // the last observation, and when it was first made
  bool told;
} seen[MAX_WORKERS];

static uint64_t load(uint64_t *n) { return __atomic_load_n(n, __ATOMIC_SEQ_CST); }
static void store_watching(uint32_t yes) { __atomic_store_n(&dm_watching, yes, __ATOMIC_SEQ_CST); }

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// look reports each hold to Go once. It returns whether a worker was busy since the last check.
static bool look(void) {
  bool busy = false;
  uint64_t now = now_ns();
  for (int i = 0; i < workers; i++) {
    uint64_t visits = load(&dm_visits[i].n);
    if (visits != seen[i].visits) {
      seen[i].visits = visits, seen[i].since = now, seen[i].told = false;
      busy = true;
    } else if (visits % 2) {
      busy = true;
      if (!seen[i].told && now - seen[i].since >= max_hold_ns) seen[i].told = true, goHeld(now - seen[i].since);
    }
  }
  return busy;
}

// rest waits for the next visit. One since the last check has seen that the thread was watching.
static void rest(void) {
  pthread_mutex_lock(&lock);
  store_watching(0);
  bool quiet = true;
  for (int i = 0; i < workers; i++) quiet &= load(&dm_visits[i].n) == seen[i].visits;
  if (!quiet) store_watching(1);
  while (!__atomic_load_n(&dm_watching, __ATOMIC_SEQ_CST)) pthread_cond_wait(&woken, &lock);
  pthread_mutex_unlock(&lock);
}

static void *watch(void *unused) {
  (void)unused;
  struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
  for (int idle = 0;;) {
    nanosleep(&pause, NULL);
    idle = look() ? 0 : idle + 1;
    if (idle >= IDLE_LOOKS) rest(), idle = 0;
  }
  return NULL;
}

bool dm_watch(int n, uint64_t hold_ns) {
  workers = n, max_hold_ns = hold_ns;
  store_watching(1);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to Envoy
  pthread_t t;
  int r = pthread_create(&t, NULL, watch, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return r == 0 && pthread_detach(t) == 0;
}

void dm_watch_again(void) {
  pthread_mutex_lock(&lock);
  store_watching(1);
  pthread_cond_signal(&woken);
  pthread_mutex_unlock(&lock);
}
