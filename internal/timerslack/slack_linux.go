package timerslack

// #include "slack.h"
import "C"

func usual() { C.timer_slack(C.USUAL_NS) }

func late() { C.timer_slack(C.LATE_NS) }
