package request

import (
	"time"

	"bardo.money/gateway/policy"
)

// TotalTime returns the total timeout less the time spent waiting for a coalesced request, at least a second.
func (v *View) TotalTime() time.Duration {
	return max(v.Config.Timeouts.Total-v.Waited, time.Second)
}

// AttemptTimeout returns the timeout of an attempt: until the first content of a stream, or for a whole answer that is not streamed.
func (v *View) AttemptTimeout(to policy.Resolution) time.Duration {
	if v.Request.Stream {
		return v.Config.Timeouts.ForFirstToken(v.Request)
	}
	return v.Config.Timeouts.ForAnswer(v.Request, v.OutputTokens(to))
}
