package injection

import (
	"fmt"
	"strings"
	"sync"

	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/policy"
)

// outcome is what a request's texts were found to be so far. Its request and what is judged beside it share it; it holds nothing of the request.
type outcome struct {
	request string
	account policy.Account
	told    bool // in an earlier run of the request: only what is refused now is counted and emitted

	mu    sync.Mutex
	score float64 // the highest of bad texts
	did   Policy  // the strictest of what happened
	n     [3]int  // bad texts by source
	none  int     // texts without a verdict
	parts int     // texts of which only a part was judged
}

// strictness orders policies.
var strictness = map[Policy]int{Off: 0, Flag: 1, Quarantine: 2, Block: 3}

// bad notes a text that is an injection.
func (o *outcome) bad(s injection.Source, did Policy, score float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.score = max(o.score, score)
	o.n[s]++
	if strictness[did] > strictness[o.did] {
		o.did = did
	}
}

// unscored notes a text that could not be judged.
func (o *outcome) unscored() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.none++
}

// partly notes a text that was judged in part, if it was.
func (o *outcome) partly(sp *span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sp.finding.Partial {
		o.parts++
	}
}

// header is the value of X-Bardo-Injection: the highest score of a bad text that is known by now.
func (o *outcome) header() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.did == "" {
		return ""
	}
	return printed(o.score)
}

// Note is what X-Bardo-Pipeline says: flagged;tool_result=1;score=0.97.
func (o *outcome) Note() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	if o.did != "" {
		out = append(out, verdicts[o.did])
		for s, n := range o.n {
			if n > 0 {
				out = append(out, fmt.Sprintf("%s=%d", injection.Source(s), n))
			}
		}
		out = append(out, "score="+printed(o.score))
	}
	if o.parts > 0 {
		out = append(out, fmt.Sprintf("partly=%d", o.parts))
	}
	if o.none > 0 {
		out = append(out, fmt.Sprintf("unscored=%d", o.none))
	}
	return strings.Join(out, ";")
}
