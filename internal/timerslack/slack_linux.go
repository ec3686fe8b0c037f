package timerslack

/*
// As in extproc/stream/module.
#cgo CFLAGS: -I${SRCDIR}
#include "slack.h"
*/
import "C"

func usual() { C.timer_slack(C.USUAL_NS) }

func late() { C.timer_slack(C.LATE_NS) }
