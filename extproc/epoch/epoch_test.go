package epoch

import (
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

func TestP08AnEpochEndsWhenTheKernelDoes(t *testing.T) {
	all := Rules{On: true, Idle: 5 * time.Minute, Dreams: true, Phases: true}
	var c Coordinator
	now := time.Unix(1_800_000_000, 0)
	var before string
	for i, row := range []struct {
		about string
		rules Rules
		later time.Duration
		h     policy.Hints
		want  Reason
	}{
		{"the first request", all, 0, policy.Hints{GolemID: "g"}, First},
		{"another subsystem", all, time.Minute, policy.Hints{GolemID: "g", Subsystem: "curator"}, Same},
		{"the first phase that is named", all, time.Minute, policy.Hints{GolemID: "g", Phase: policy.PhaseStable}, Same},
		{"the same phase", all, time.Minute, policy.Hints{GolemID: "g", Phase: policy.PhaseStable}, Same},
		{"another phase", all, time.Second, policy.Hints{GolemID: "g", Phase: policy.PhaseConservation}, PhaseTransition},
		{"a dream begins", all, time.Second, policy.Hints{GolemID: "g", DreamCycleID: "c1"}, DreamStart},
		{"the dream goes on", all, time.Second, policy.Hints{GolemID: "g", DreamCycleID: "c1"}, Same},
		{"awake meanwhile", all, time.Second, policy.Hints{GolemID: "g"}, Same},
		{"the dream goes on again", all, time.Second, policy.Hints{GolemID: "g", DreamCycleID: "c1"}, Same},
		{"the next dream", all, 0, policy.Hints{GolemID: "g", DreamCycleID: "c2"}, DreamStart},
		{"the kernel is forgotten", all, 5*time.Minute + 1, policy.Hints{GolemID: "g"}, Forgotten},
		{"dreams begin none", Rules{On: true, Phases: true}, time.Hour, policy.Hints{GolemID: "g", DreamCycleID: "c3"}, Same},
		{"phases begin none", Rules{On: true, Dreams: true}, time.Hour, policy.Hints{GolemID: "g", Phase: policy.PhaseTerminal}, Same},
	} {
		now = now.Add(row.later)
		key, epoch, why := c.Key(row.rules, "a", &row.h, now)
		if why != row.want || key != fmt.Sprintf("g:%d", epoch) || i > 0 && (key != before) != (why != Same) || c.Peek("a", "g") != key {
			t.Errorf("%s: %s (%s), want %s; before: %s", row.about, key, why, row.want, before)
		}
		before = key
	}
	if n := c.Advance("a", "g", now); c.Peek("a", "g") != fmt.Sprintf("g:%d", n) || c.Peek("a", "g") == before {
		t.Errorf("asked for one: %s after %s", c.Peek("a", "g"), before)
	}
	if c.Peek("b", "g") != "" {
		t.Error("another account's agent has the same epoch")
	}
	if key, _, why := c.Key(Rules{}, "a", &policy.Hints{GolemID: "g"}, now); key != "" || why != Same {
		t.Errorf("without rules: %q %s", key, why)
	}
	if key, _, _ := c.Key(all, "a", &policy.Hints{}, now); key != "" {
		t.Errorf("without an agent: %q", key)
	}
}

func TestP08ANumberIsNotUsedAgain(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var c Coordinator
	for i := range 3 {
		if n := c.Advance("a", "g", now); n != now.Unix()+int64(i) {
			t.Errorf("epoch %d", n)
		}
	}
	var later Coordinator // of the next process
	if n := later.Advance("a", "g", now.Add(time.Minute)); n <= now.Unix()+2 {
		t.Errorf("the next process begins with %d", n)
	}
}

func TestP08SilentAgentsAreForgotten(t *testing.T) {
	var c Coordinator
	now := time.Unix(1_800_000_000, 0)
	for i := range maxAgents + 1 {
		c.Advance("a", fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))
	}
	if len(c.agents) != maxAgents || c.Peek("a", "0") != "" || c.Peek("a", "1") == "" {
		t.Errorf("%d agents are remembered", len(c.agents))
	}
}
