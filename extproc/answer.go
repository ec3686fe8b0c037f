package extproc

import (
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// attemptNumber counts the attempts up to the one that answers.
func (x *exchange) attemptNumber() int {
	if x.trace.Settled != nil || x.report.Stored != nil || x.current != nil && x.current.Counted {
		return len(x.trace.Attempts)
	}
	return len(x.trace.Attempts) + 1
}

// answerHeaders are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	return x.report.Answer(to, x.attemptNumber())
}
