package injection

import (
	"fmt"
	"strings"
	"sync"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/policy"
)

// outcome collects the verdicts about a request's texts. The request and its background share it. It refers to no memory of the request.
type outcome struct {
	request  string
	account  policy.Account
	repeated bool // the request was judged in an earlier run: only refusals are counted and emitted

	mu       sync.Mutex
	score    float64 // the highest of bad texts
	action   Policy  // the strictest of what happened
	counts   [3]int  // bad texts by source
	unjudged int     // texts without a verdict
	partial  int     // texts of which only a part was judged
}

// strictness orders policies.
var strictness = map[Policy]int{Off: 0, Flag: 1, Quarantine: 2, Block: 3}

// addBad adds a text that is an injection.
func (o *outcome) addBad(s injection.Source, action Policy, score float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.score = max(o.score, score)
	o.counts[s]++
	if strictness[action] > strictness[o.action] {
		o.action = action
	}
}

// addUnjudged adds a text that could not be judged.
func (o *outcome) addUnjudged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unjudged++
}

// addPartial adds a text if only a part of it was judged.
func (o *outcome) addPartial(sp *span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sp.finding.Partial {
		o.partial++
	}
}

// header is the value of X-Bardo-Injection: the highest score of the bad texts found so far.
func (o *outcome) header() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.action == "" {
		return ""
	}
	return printed(o.score)
}

// Note is the note in X-Bardo-Pipeline: flagged;tool_result=1;score=0.97.
func (o *outcome) Note() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	if o.action != "" {
		out = append(out, verdicts[o.action])
		for s, n := range o.counts {
			if n > 0 {
				out = append(out, fmt.Sprintf("%s=%d", injection.Source(s), n))
			}
		}
		out = append(out, "score="+printed(o.score))
	}
	if o.partial > 0 {
		out = append(out, fmt.Sprintf("partly=%d", o.partial))
	}
	if o.unjudged > 0 {
		out = append(out, fmt.Sprintf("unscored=%d", o.unjudged))
	}
	return strings.Join(out, ";")
}
