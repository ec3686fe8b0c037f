package health

import (
	"time"

	"bardo.money/gateway/policy"
)

// Trials is where a tracker that follows a control plane asks for leave to try a provider out of favour: of all sidecars, one at a time
// may. Its methods must not block.
type Trials interface {
	// Want says that a request here would have tried the provider.
	Want(p policy.ProviderID)
	// Return says that the trial which was granted here is over; its result was reported before.
	Return(p policy.ProviderID)
}

// word is what the control plane says of a provider.
type word struct {
	state     State // "" if it has said nothing
	reason    string
	coolUntil time.Time
	leads     bool // the control plane is there: it grants the trials of what it has put out of favour
	granted   bool // the next request may try it
	trying    bool // a request does
}

func (w word) out() bool { return w.state.Out() }

// Follow takes the control plane's word for the order, which stands until the next one. What was seen here counts beside it: a provider
// that is in trouble here alone goes last here alone. trials is asked about providers that the control plane has put out of favour.
func (t *Tracker) Follow(now time.Time, view []Status, trials Trials) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trials = trials
	said := make(map[policy.ProviderID]Status, len(view))
	for _, s := range view {
		said[s.Provider] = s
	}
	for id, r := range t.records {
		if r.heed(now, said[id]) {
			t.notify()
		}
	}
}

// heed takes a new word, and reports whether it changes anything.
func (r *record) heed(now time.Time, s Status) bool {
	old := r.word
	r.word = word{state: s.State, reason: s.Reason, coolUntil: s.CoolUntil, leads: true, trying: old.trying}
	if r.word.out() {
		r.word.granted = old.granted
	}
	if old.leads && old.out() && !r.word.out() && r.out() {
		r.probeAt = now // another sidecar has found that it is back: the next request here sees for itself
	}
	return old.state != r.word.state || old.reason != r.word.reason || old.coolUntil.After(now) != r.word.coolUntil.After(now)
}

// Alone says that the control plane is away. Its last word stands, and what it had put out of favour is tried by the rules of this
// tracker.
func (t *Tracker) Alone(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		w := r.word
		r.word.leads, r.word.granted = false, false
		if !w.out() {
			continue
		}
		r.word.state = ""
		if !r.out() {
			r.expel(now, failing, w.reason)
			if w.state == CredentialRefused {
				r.cause = refused
			}
		}
	}
}

// Grant lets the next request that could go to the provider try it, although it is out of favour.
func (t *Tracker) Grant(p policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[p]; r != nil && r.word.leads && r.word.out() {
		r.word.granted = true
		return
	}
	if t.trials != nil {
		t.trials.Return(p)
	}
}

// Revoke gives back a grant that no request has used.
func (t *Tracker) Revoke(p policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[p]; r != nil && r.word.granted {
		r.word.granted = false
		t.trials.Return(p)
	}
}

// Claim takes the trial of a provider that is due to be tried again, for a request elsewhere; ok is false if there is none to take.
// Release frees it, unless its result did so already.
func (t *Tracker) Claim(now time.Time, p policy.ProviderID) (claim int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[p]
	if r == nil || r.off() || !r.claim(now) {
		return 0, false
	}
	return r.claims, true
}

// Release ends a claim.
func (t *Tracker) Release(p policy.ProviderID, claim int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[p]; r != nil && r.claims == claim {
		r.release()
	}
}

// Forget drops the pings of a source that no longer sends any.
func (t *Tracker) Forget(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		delete(r.pings, source)
	}
}
