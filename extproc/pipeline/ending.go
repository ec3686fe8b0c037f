package pipeline

import "bardo.money/gateway/policy"

// Ender is implemented by layers that need to know how an exchange ended whose answer they watch. Ended is called once, after everything else,
// whether or not the answer had an End, and must not block. outcome is that of the request's record (see package record), code that of the client's
// error ("" for none), and by the candidate that answered or was called last.
type Ender interface {
	Ended(x *Exchange, outcome, code string, by policy.Resolution)
}

// Ended notifies the layers that watch the answer how the exchange ended.
func (x *Exchange) Ended(outcome, code string, by policy.Resolution) {
	for _, w := range x.watchers {
		if l, ok := w.Responder.(Ender); ok {
			l.Ended(x, outcome, code, by)
		}
	}
}
