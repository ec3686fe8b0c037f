package realtime

import (
	"slices"
	"time"
)

// asked is what a client has asked of the provider and the provider has not answered yet, and the settings that decide what responses may cost. Not safe for
// concurrent use.
type asked struct {
	responses []ask
	updates   []int64  // the limits of output in changes of the settings that the provider has not confirmed yet; 0 for none
	settings  settings // as the provider reported them last
}

// ask is a response that the client has asked for and that has not begun.
type ask struct {
	output int64 // the limit of its output that the event has; 0 for none
	at     time.Time
}

// settings are those of a session that matter for the cost of responses.
type settings struct {
	output  int64  // the limit of a response's output
	listens bool   // the provider may begin responses by itself
	hears   speech // the format of what the client says
	speaks  speech // and of what the model says
}

const (
	// askLife is how long a response that was asked for is expected to begin, unless the provider refuses it.
	askLife = 30 * time.Second
	// maxUpdates is the number of unconfirmed changes that are kept apart.
	maxUpdates = 64
)

// sent notes an event that is sent to the provider.
func (a *asked) sent(e *clientEvent) {
	switch e.kind {
	case createResponse:
		a.responses = append(a.responses, ask{e.output, time.Now()})
	case updateSession:
		output := e.output
		if len(a.updates) == maxUpdates {
			output = max(output, a.updates[0])
			a.updates = slices.Delete(a.updates, 0, 1)
		}
		a.updates = append(a.updates, output)
	}
}

// unsent takes back the response that was asked for last.
func (a *asked) unsent() {
	if n := len(a.responses); n > 0 {
		a.responses = a.responses[:n-1]
	}
}

// waiting returns the number of responses that are expected to begin.
func (a *asked) waiting() int {
	a.responses = slices.DeleteFunc(a.responses, func(r ask) bool { return time.Since(r.at) > askLife })
	return len(a.responses)
}

// refused notes that the provider refused to begin a response, because another one is in progress. Of other errors it is not known which event they are about:
// clients choose the ids of events, and may use one twice.
func (a *asked) refused() {
	if len(a.responses) > 0 {
		a.responses = slices.Delete(a.responses, 0, 1)
	}
}

// confirmed notes the settings that the provider reports; changed if they are the answer to a change.
func (a *asked) confirmed(s settings, changed bool) {
	a.settings = s
	if changed && len(a.updates) > 0 {
		a.updates = slices.Delete(a.updates, 0, 1)
	}
}

// output returns the limit of the output of responses that have none of their own: the highest that may be in effect.
func (a *asked) output() int64 {
	n := a.settings.output
	for _, output := range a.updates {
		n = max(n, output)
	}
	return n
}

// began notes that a response with a limit of its output began; 0 if the provider did not report it. It returns the highest limit that it may have.
func (a *asked) began(output int64) int64 {
	most := a.output()
	at := slices.IndexFunc(a.responses, func(r ask) bool { return orSession(r.output, most) == output })
	for _, r := range a.responses {
		if output == 0 {
			most = max(most, r.output)
		}
	}
	if len(a.responses) > 0 {
		a.responses = slices.Delete(a.responses, max(at, 0), max(at, 0)+1)
	}
	return orSession(output, most)
}

// orSession returns a response's own limit, or the session's.
func orSession(own, session int64) int64 {
	if own > 0 {
		return own
	}
	return session
}

// outputs returns the limits of the output of the responses that have to be prepared: those that were asked for, and at least one that the provider may
// begin by itself, when it hears the end of speech.
func (a *asked) outputs() []int64 {
	session := a.output()
	if a.waiting() == 0 {
		return []int64{session}
	}
	var all []int64
	for _, r := range a.responses {
		all = append(all, orSession(r.output, session))
	}
	if most := slices.Max(all); most < session && (a.settings.listens || len(a.updates) > 0) {
		all[slices.Index(all, most)] = session
	}
	return all
}
