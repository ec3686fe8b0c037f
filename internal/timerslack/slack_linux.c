#include <sys/prctl.h>

#include "slack.h"

// Threads inherit the slack of the thread that makes them. In a program this runs before Go's runtime begins; in a library its priority puts it before Go's own
// initialisation, which has none.
__attribute__((constructor(101))) static void before_go(void) { timer_slack(LATE_NS); }

void timer_slack(long ns) { prctl(PR_SET_TIMERSLACK, ns); }
