package health

import (
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// asked are the trials that a tracker requested and returned.
type asked struct{ wanted, returned []policy.ProviderID }

func (a *asked) Want(p policy.ProviderID)   { a.wanted = append(a.wanted, p) }
func (a *asked) Return(p policy.ProviderID) { a.returned = append(a.returned, p) }

func says(state State) Status { return Status{Provider: "a", State: state, Reason: "heard elsewhere"} }

func TestAFollowerTakesTheControlPlanesWord(t *testing.T) {
	for _, tt := range []struct {
		name string
		says Status
		want []policy.ProviderID
	}{
		{"healthy", says(Healthy), configured},
		{"unknown", says(Unknown), configured},
		{"down", says(Down), []policy.ProviderID{"b", "c", "a"}},
		{"degraded", Status{Provider: "a", State: Degraded, CoolUntil: start.Add(time.Minute)}, []policy.ProviderID{"b", "c", "a"}},
		{"degraded until just now", Status{Provider: "a", State: Degraded, CoolUntil: start}, configured},
		{"disabled", says(Disabled), []policy.ProviderID{"b", "c"}},
		{"of a provider that is not here", Status{Provider: "ghost", State: Down}, configured},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracker()
			tr.Follow(start, []Status{tt.says}, &asked{})
			wantOrder(t, tr, start, tt.want...)
			tr.Follow(start, []Status{says(Healthy)}, &asked{})
			wantOrder(t, tr, start, configured...)
		})
	}
}

// Local failures only count on this machine.
func TestAFollowerBelievesItsOwnEyesToo(t *testing.T) {
	tr := tracker()
	tr.Follow(start, []Status{says(Healthy)}, &asked{})
	tr.many(start, "a", Failure, 5)
	wantOrder(t, tr, start, "b", "c", "a")
	tr.Follow(start, []Status{says(Healthy)}, &asked{})
	wantOrder(t, tr, start, "b", "c", "a")
	order, done := tr.Plan(start.Add(time.Minute), configured)
	defer done()
	if order[0] != "a" {
		t.Error("it needs nobody's leave to try again what it has put last by itself")
	}
}

// If another sidecar found a provider healthy, one request here tries it immediately. Only its success ends the local state: otherwise a machine with
// its own network problem would mark the provider as down for all, repeatedly.
func TestAProviderThatAnotherSidecarFoundBack(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		want []policy.ProviderID
	}{{OK, configured}, {Failure, []policy.ProviderID{"b", "c", "a"}}} {
		tr := tracker()
		tr.many(start, "a", Failure, 5)
		tr.Follow(start, []Status{says(Down)}, &asked{})
		tr.Follow(start, []Status{says(Healthy)}, &asked{})
		wantOrder(t, tr, start, "b", "c", "a")
		order, done := tr.Plan(start, configured)
		if order[0] != "a" {
			t.Error("it is not tried")
		}
		tr.Report(start, Result{Provider: "a", Kind: tt.kind})
		done()
		wantOrder(t, tr, start, tt.want...)
		if order, done := tr.Plan(start, configured); tt.kind == Failure && order[0] == "a" {
			t.Error("it is tried again at once")
		} else {
			done()
		}
	}
}

func TestAFollowerTriesWhatIsDownWithLeaveOnly(t *testing.T) {
	tr, trials := tracker(), &asked{}
	tr.Follow(start, []Status{says(Down)}, trials)
	later := start.Add(time.Hour)
	plan := func() (first policy.ProviderID, done func()) {
		order, done := tr.Plan(later, configured)
		return order[0], done
	}
	first, done := plan()
	done()
	if first == "a" || !slices.Equal(trials.wanted, []policy.ProviderID{"a"}) {
		t.Fatalf("the first is %s, wanted %v", first, trials.wanted)
	}
	tr.Grant("a")
	first, done = plan()
	if second, doneSecond := plan(); first != "a" || second == "a" {
		t.Errorf("the first request goes to %s, the second to %s", first, second)
	} else {
		doneSecond()
	}
	tr.Report(later, Result{Provider: "a", Kind: OK})
	if len(trials.returned) != 0 {
		t.Error("it was given back before its request had ended")
	}
	done()
	if !slices.Equal(trials.returned, []policy.ProviderID{"a"}) {
		t.Errorf("given back: %v", trials.returned)
	}
	if first, done := plan(); first == "a" {
		t.Error("it is back without the control plane's word")
	} else {
		done()
	}
}

func TestAGrantThatNobodyUsesIsGivenBack(t *testing.T) {
	tr, trials := tracker(), &asked{}
	tr.Follow(start, []Status{says(Down)}, trials)
	tr.Grant("a")
	tr.Revoke("a")
	tr.Revoke("a")
	if len(trials.returned) != 1 {
		t.Errorf("given back: %v", trials.returned)
	}
	tr.Follow(start, []Status{says(Healthy)}, trials)
	tr.Grant("a") // it came too late
	if len(trials.returned) != 2 {
		t.Errorf("given back: %v", trials.returned)
	}
	if order, done := tr.Plan(start, configured); order[0] != "a" {
		t.Error("it is healthy")
	} else {
		done()
	}
}

// Without the control plane its last view stays in effect, and otherwise this sidecar acts as if it were the only one.
func TestAloneAFollowerGoesOn(t *testing.T) {
	tr, trials := tracker(), &asked{}
	tr.Follow(start, []Status{says(Down), {Provider: "b", State: Disabled}}, trials)
	tr.Grant("a")
	tr.Alone(start)
	wantOrder(t, tr, start, "c", "a")
	if s := tr.Snapshot(start)[0]; s.State != Down || s.Reason != "heard elsewhere" {
		t.Errorf("it is %+v", s)
	}
	if order, done := tr.Plan(start.Add(time.Second), configured); order[0] == "a" {
		t.Error("a grant outlived the one that gave it")
	} else {
		done()
	}
	order, done := tr.Plan(start.Add(time.Minute), configured)
	if order[0] != "a" {
		t.Fatal("it is never tried again")
	}
	tr.Report(start.Add(time.Minute), Result{Provider: "a", Kind: OK})
	done()
	wantOrder(t, tr, start.Add(time.Minute), "a", "c")
	if len(trials.wanted)+len(trials.returned) != 0 {
		t.Errorf("it asked %+v, though nobody is there", trials)
	}
	tr.Follow(start.Add(2*time.Minute), []Status{says(Down)}, trials)
	wantOrder(t, tr, start.Add(2*time.Minute), "b", "c", "a")
}

func TestATrialIsClaimedByOne(t *testing.T) {
	tr := tracker()
	if _, ok := tr.Claim(start, "a"); ok {
		t.Error("there is nothing to try")
	}
	tr.many(start, "a", Failure, 5)
	if _, ok := tr.Claim(start, "a"); ok {
		t.Error("it is tried at once")
	}
	later := start.Add(15 * time.Second)
	first, ok := tr.Claim(later, "a")
	if !ok {
		t.Fatal("it is never tried")
	}
	if _, ok := tr.Claim(later, "a"); ok {
		t.Error("two try it at once")
	}
	tr.Release("a", first)
	second, ok := tr.Claim(later, "a")
	if !ok {
		t.Fatal("it was not freed")
	}
	tr.Release("a", first)
	if _, ok := tr.Claim(later, "a"); ok {
		t.Error("an old claim freed the new one")
	}
	tr.Report(later, Result{Provider: "a", Kind: OK})
	tr.Release("a", second)
	wantOrder(t, tr, later, configured...)
}

func TestPingsOfSeveralSources(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail []string // who fails, ping by ping; the others are fine
		down bool
	}{
		{"one of two has trouble of its own", []string{"gw-1", "gw-1", "gw-1", "gw-1"}, false},
		{"all of them fail", []string{"gw-1", "gw-2", "gw-1", "gw-2", "gw-1", "gw-2"}, true},
		{"all of them fail, but not often enough", []string{"gw-1", "gw-1", "gw-1", "gw-2", "gw-2"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracker()
			tr.PingFrom(start, "gw-1", "a", nil)
			tr.PingFrom(start, "gw-2", "a", nil)
			for _, source := range tt.fail {
				tr.PingFrom(start, source, "a", errPing)
			}
			if down := tr.Snapshot(start)[0].State == Down; down != tt.down {
				t.Errorf("down: %v", down)
			}
		})
	}
	tr := tracker()
	tr.PingFrom(start, "gone", "a", nil)
	tr.Forget("gone")
	for range 3 {
		tr.PingFrom(start, "gw-1", "a", errPing)
	}
	if tr.Snapshot(start)[0].State != Down {
		t.Error("a source that is gone keeps it up")
	}
}
