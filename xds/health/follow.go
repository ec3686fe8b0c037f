package health

import (
	"time"

	"bardo.money/gateway/policy"
)

// Trials requests permission from the control plane to send a trial request to a provider that is down: one sidecar at a time may. Its methods
// must not block.
type Trials interface {
	// Want requests a trial of the provider.
	Want(p policy.ProviderID)
	// Return ends a granted trial, after its result was reported.
	Return(p policy.ProviderID)
}

// directive is the control plane's state of a provider.
type directive struct {
	state     State // "" if there is none
	reason    string
	coolUntil time.Time
	connected bool // the control plane is connected and grants trials of providers that it considers down
	granted   bool // the next request may be a trial
	trying    bool // a trial request is in flight
}

func (w directive) out() bool { return w.state.Out() }

// Follow applies the control plane's view until the next one. Local results also count: a provider that fails only here is only last here. trials
// is used for providers that the control plane considers down.
func (t *Tracker) Follow(now time.Time, view []Status, trials Trials) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trials = trials
	said := make(map[policy.ProviderID]Status, len(view))
	for _, s := range view {
		said[s.Provider] = s
	}
	for id, r := range t.records {
		if r.applyDirective(now, said[id]) {
			t.notify()
		}
	}
}

// applyDirective applies a new directive, and reports whether it changes anything.
func (r *record) applyDirective(now time.Time, s Status) bool {
	old := r.directive
	r.directive = directive{state: s.State, reason: s.Reason, coolUntil: s.CoolUntil, connected: true, trying: old.trying}
	if r.directive.out() {
		r.directive.granted = old.granted
	}
	if old.connected && old.out() && !r.directive.out() && r.out() {
		r.probeAt = now // another sidecar found it healthy: the next request here is a trial
	}
	return old.state != r.directive.state || old.reason != r.directive.reason || old.coolUntil.After(now) != r.directive.coolUntil.After(now)
}

// Alone is called when the control plane disconnects. Its last view stays in force, and trials follow this tracker's own rules.
func (t *Tracker) Alone(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		w := r.directive
		r.directive.connected, r.directive.granted = false, false
		if !w.out() {
			continue
		}
		r.directive.state = ""
		if !r.out() {
			r.expel(now, failing, w.reason)
			if w.state == CredentialRefused {
				r.cause = refused
			}
		}
	}
}

// Grant lets the next request to a provider that is down be a trial.
func (t *Tracker) Grant(p policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[p]; r != nil && r.directive.connected && r.directive.out() {
		r.directive.granted = true
		return
	}
	if t.trials != nil {
		t.trials.Return(p)
	}
}

// Revoke revokes an unused grant.
func (t *Tracker) Revoke(p policy.ProviderID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[p]; r != nil && r.directive.granted {
		r.directive.granted = false
		t.trials.Return(p)
	}
}

// Claim takes a due trial of a provider for another sidecar; ok is false if none is due. Release frees it, unless its result did.
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

// Forget drops the ping results of a source that has disconnected.
func (t *Tracker) Forget(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		delete(r.pings, source)
	}
}
