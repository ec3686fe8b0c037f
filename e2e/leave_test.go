package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// frequentHeartbeats tells often that an answer is on its way.
var frequentHeartbeats = strings.Replace(quick, "idle: 50s", "idle: 20s, heartbeat: 50ms", 1)

// disconnectWhenReady asks in a stream, and leaves once the gateway has said several times that it still waits after ready was true.
func disconnectWhenReady(t *testing.T, g *gateway.Gateway, c gateway.Call, ready func() bool) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), polltest.Patience)
	defer leave()
	res, err := g.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for beats := 0; lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			t.Fatalf("the client sees %q", lines.Text())
		}
		if lines.Text() == ": heartbeat" && ready() {
			if beats++; beats == 8 {
				return
			}
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
}

// done tells whether a provider has given its one answer.
func done(s *fake.Server) func() bool {
	return func() bool {
		rs := s.Generations()
		return len(rs) == 1 && rs[0].Done
	}
}

// began tells whether a provider has given some of its one answer.
func began(s *fake.Server) func() bool {
	return func() bool {
		rs := s.Generations()
		return len(rs) == 1 && rs[0].Sent > 300
	}
}

type verifiedLeaveCase struct {
	about         string
	first, second fake.Behaviour
	ready         func(lead, other *fake.Server) func() bool
	least, most   int64
}

// TestK34WhoLeavesWhileTwoModelsAreAskedPaysForBoth: for the answer that is there, and for what there is of the other one, once, and nothing
// stays held. The lead asks $1 and $2, the other $3 and $4, and 20 percent come on top.
func TestK34WhoLeavesWhileTwoModelsAreAskedPaysForBoth(t *testing.T) {
	t.Parallel()
	half := fake.Behaviour{Tokens: 40, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 20}}
	mute := fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}}
	for _, row := range []verifiedLeaveCase{
		{
			"the second is there, of the first there is nothing", mute,
			fake.Behaviour{Text: "No.", Usage: &fake.Usage{Input: 2000, Output: 50}},
			func(_, other *fake.Server) func() bool { return done(other) }, 7_441, 7_500,
		},
		{
			"the first is there, of the second there is nothing",
			fake.Behaviour{Text: "Yes.", Usage: &fake.Usage{Input: 1000, Output: 100}},
			mute,
			func(lead, _ *fake.Server) func() bool { return done(lead) }, 1_441, 1_600,
		},
		{
			"the first is there, and half of the second",
			fake.Behaviour{Text: "Yes.", Usage: &fake.Usage{Input: 1000, Output: 100}},
			half,
			func(_, other *fake.Server) func() bool { return began(other) }, 1_441, 3_000,
		},
		{
			"the second is there, and half of the first", half,
			fake.Behaviour{Text: "No.", Usage: &fake.Usage{Input: 2000, Output: 50}},
			func(lead, other *fake.Server) func() bool {
				return func() bool { return done(other)() && began(lead)() }
			}, 7_441, 9_000,
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			lead := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "lead"})
			other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
			g := gateway.Run(t, gateway.Options{Config: frequentHeartbeats, Providers: []gateway.Provider{
				{ID: "lead", Fake: lead, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 1, output: 2}"}}},
				{ID: "other", Fake: other, Models: []gateway.Model{{ID: "gpt-4.1", Price: "{input: 3, output: 4}"}}},
			}})
			lead.Behave(row.first)
			other.Behave(row.second)
			key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
			c := shaper("openai").call("claude-opus-4-6", true, "May it?", "", "X-Bardo-Verify: true")
			c.Key = key
			disconnectWhenReady(t, g, c, row.ready(lead, other))
			var paid int64
			eventually(t, "the charge", func() bool {
				f := fundsOf(t, g, key)
				paid = 50_000_000 - micro(t, *f.Balance)
				return paid > 0 && f.Held == "0.000000"
			})
			if paid < row.least || paid > row.most {
				t.Errorf("%d were taken, want %d to %d", paid, row.least, row.most)
			}
			g.AssertSound(t)
		})
	}
}

// TestK34WhoLeavesInTheMiddleOfTierT2PaysForBothTiers.
func TestK34WhoLeavesInTheMiddleOfTierT2PaysForBothTiers(t *testing.T) {
	t.Parallel()
	swift := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "swift"})
	deep := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "deep"})
	g := gateway.Run(t, gateway.Options{Config: frequentHeartbeats, Providers: []gateway.Provider{
		{ID: "swift", Fake: swift, Models: []gateway.Model{{
			ID: "small", Price: "{input: 1, output: 2}", More: "quality: low, family: small, reasoning: none, capabilities: [tools, structured_outputs, low_effort]",
		}}},
		{ID: "deep", Fake: deep, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 3, output: 4}"}}},
	}})
	says(swift, decision("observe", 0.9, true), 1000, 100)
	deep.Behave(fake.Behaviour{JSON: decision("hedge", 0.9, false), Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 1}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	c := shaper("openai").call("auto", true, "What now?", "", "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto")
	c.Key = key
	disconnectWhenReady(t, g, c, began(deep))
	var paid int64
	eventually(t, "the charge", func() bool {
		f := fundsOf(t, g, key)
		paid = 50_000_000 - micro(t, *f.Balance)
		return paid > 0 && f.Held == "0.000000"
	})
	if paid <= 1_440 {
		t.Errorf("%d were taken, which is no more than T1 took", paid)
	}
	g.AssertSound(t)
}

// TestASecondAnswerWithoutItsFormIsPaidFor where the first provider fails: the caller gets an error, and the model did its work. What was
// taken is told.
func TestASecondAnswerWithoutItsFormIsPaidFor(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	lead.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
	other.Behave(fake.Behaviour{Flaw: fake.ProseOnly, Usage: &fake.Usage{Input: 2000, Output: 50}})
	for _, stream := range []bool{false, true} {
		before := balanceOf(t, g, key)
		c := shaper("openai").call("claude-opus-4-6", stream, "May it?", "", "X-Bardo-Subsystem: risk", "X-Bardo-Verify: true")
		c.Key = key
		got := g.Do(t, c)
		if got.Status != http.StatusBadGateway && got.Status != http.StatusServiceUnavailable {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		if paid := before - balanceOf(t, g, key); paid != 7_440 || got.Header.Get("X-Bardo-Cost") != "0.007440" {
			t.Errorf("stream=%v: %d were taken, %v", stream, paid, got.Header)
		}
		if r := verifiedBy(t, g, key, got); r.Cost != "0.0062" || r.InputTokens != 2000 {
			t.Errorf("the record says %+v", r)
		}
	}
	g.AssertSound(t)
}
