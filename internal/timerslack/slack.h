// How much later than asked for the kernel may wake a thread, in nanoseconds: what Linux begins with, and what a program of Go's gets.
enum { USUAL_NS = 50 * 1000, LATE_NS = 1000 * 1000 };

void timer_slack(long ns);
