package cognition

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

func TestP10ARecordHasThirteenFields(t *testing.T) {
	b, err := json.Marshal(Record{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("tick_id cognition_class model_id privacy_tier cf_ray latency_ms cached_tokens_ratio input_tokens output_tokens cost_estimate_usdc balance_remaining attestation_valid structured_output_valid") {
		if _, ok := fields[name]; !ok {
			t.Errorf("no %s", name)
		}
		delete(fields, name)
	}
	if len(fields) != 0 {
		t.Errorf("also %v", fields)
	}
}

func TestP10TheLast500RecordsAreKept(t *testing.T) {
	b := NewBridge()
	for i := range 600 {
		b.Add("a", &Record{Tick: fmt.Sprint(i), Class: "heartbeat", Tier: "private", Cost: 2}, nil)
	}
	all := b.Records("a", 1000)
	if len(all) != MaxRecords || all[0].Tick != "599" || all[499].Tick != "100" {
		t.Errorf("%d records, from %s to %s", len(all), all[0].Tick, all[len(all)-1].Tick)
	}
	if s := b.Status("a"); s.Cost != 1200 || *s.Tick != "599" || s.Tiers["private"] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestP10EachAccountSeesItsOwn(t *testing.T) {
	b := NewBridge()
	b.Add("a", &Record{Tick: "1", Class: "trade", Tier: "tee", CachedRatio: 0.5}, nil)
	b.Add("a", &Record{Tick: "2", Class: "trade", Tier: "private", CachedRatio: 0.25}, nil)
	if got := b.Records("b", 10); len(got) != 0 {
		t.Errorf("another account sees %+v", got)
	}
	s := b.Status("a")
	if s.HitRates["trade"] != 0.375 || s.Tiers["tee"] != 0.5 || s.Tiers["e2e"] != 0 || s.KeyStatus != Active {
		t.Errorf("%+v", s)
	}
	if s := b.Status("b"); s.Model != nil || s.Tick != nil || len(s.HitRates) != 0 {
		t.Errorf("another account sees %+v", s)
	}
	for i := range 2 * maxAccounts {
		b.Add(policy.Account(fmt.Sprint(i)), &Record{}, nil)
	}
	if len(b.accounts) != maxAccounts {
		t.Errorf("%d accounts are kept", len(b.accounts))
	}
}

func TestP10SpendingOnDreamsIsCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, limit := NewBridge(), policy.Micro(100)
		f, err := b.Follow("a", "", Settings{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b.Add("a", &Record{Class: "dream_rem", Cost: 80}, &limit)
		b.Add("a", &Record{Class: "dream_rem", Cost: 40}, &limit)
		b.Add("a", &Record{Class: "trade", Cost: 40}, &limit)
		if s := b.Status("a").Budget; len(s) != 1 || s["dream_rem"].Consumed != 120 || *s["dream_rem"].Remaining != 0 {
			t.Errorf("%+v", s)
		}
		if got := string(next(t, f)); strings.Count(got, "event: budget\n") != 2 || strings.Count(got, "event: cognition\n") != 3 {
			t.Errorf("told %s", got)
		}
		time.Sleep(24 * time.Hour) //nolint:forbidigo // of the bubble
		if s := b.Status("a").Budget; len(s) != 0 {
			t.Errorf("the next day: %+v", s)
		}
	})
}

func next(t *testing.T, f *Follower) []byte {
	t.Helper()
	b, err := f.Next(context.Background(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ids returns the ids of the events in what was sent.
func ids(b []byte) (out []string) {
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			out = append(out, strings.TrimSpace(id))
		}
	}
	return out
}

func TestP10AStreamGoesOnWhereItEnded(t *testing.T) {
	b := NewBridge()
	b.Add("a", &Record{Tick: "before"}, nil)
	f, err := b.Follow("a", "", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	b.Add("a", &Record{Tick: "one"}, nil)
	b.Add("b", &Record{Tick: "of another"}, nil)
	got := next(t, f)
	if s := string(got); strings.Contains(s, "before") || strings.Contains(s, "another") || !strings.Contains(s, `"tickId":"one"`) {
		t.Errorf("told %s", got)
	}
	f.Close()
	last := ids(got)[0]
	b.Add("a", &Record{Tick: "two"}, nil)
	b.Add("a", &Record{Tick: "three"}, nil)
	for _, row := range []struct{ about, last, has, lacks string }{
		{"resumed", last, "two", "one"},
		{"of an earlier process", "other-7", "before", "lost"},
		{"unreadable", "x", "before", "lost"},
		{"of the future", b.boot + "-99", "before", "lost"},
	} {
		f, err := b.Follow("a", row.last, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if s := string(next(t, f)); !strings.Contains(s, row.has) || strings.Contains(s, row.lacks) || !strings.Contains(s, "three") {
			t.Errorf("%s: %s", row.about, s)
		}
		f.Close()
	}
	for range MaxRecords + 10 {
		b.Add("a", &Record{}, nil)
	}
	f, err = b.Follow("a", last, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s := next(t, f); !bytes.HasPrefix(s, []byte(": events were lost\n")) || len(ids(s)) != MaxRecords {
		t.Errorf("%d events: %.60s", len(ids(s)), s)
	}
}

func TestP10RatesComeEvery30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBridge()
		b.Add("a", &Record{Class: "heartbeat", CachedRatio: 0.5}, nil)
		f, err := b.Follow("a", "", Settings{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		began, beats := time.Now(), 0
		for {
			got := string(next(t, f))
			if got == ": heartbeat\n" {
				beats++
				continue
			}
			if got != "event: cache-stats\ndata: {\"hitRates\":{\"heartbeat\":0.5}}\n\n" || time.Since(began) != 30*time.Second || beats == 0 {
				t.Errorf("after %s and %d heartbeats: %q", time.Since(began), beats, got)
			}
			break
		}
		if got, err := f.Next(t.Context(), time.Second); err != nil || got != nil {
			t.Errorf("%q %v", got, err)
		}
	})
}

func TestP10FollowersAreBounded(t *testing.T) {
	b := NewBridge()
	for range maxOfOne {
		if _, err := b.Follow("a", "", Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Follow("a", "", Settings{}); err == nil {
		t.Error("one too many")
	}
	f, err := b.Follow("b", "", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if b.followers != maxOfOne {
		t.Errorf("%d followers", b.followers)
	}
}

func TestP10KeysThatAreRefusedAreTold(t *testing.T) {
	b := NewBridge()
	f, err := b.Follow("a", "", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b.SetKey(Expired, "")
	b.SetKey(Expired, "") // emitted already
	if got := string(next(t, f)); strings.Count(got, "event: key-rotation\ndata: {\"event\":\"expired\"}") != 1 || b.Status("a").KeyStatus != Expired {
		t.Errorf("%s", got)
	}
	b.Add("a", &Record{}, nil)
	if s := b.Status("a").KeyStatus; s != Active {
		t.Errorf("after an answer: %s", s)
	}
}

// The made-up figures have the distribution that is documented.
func TestP10TheMockIsDistributedAsDocumented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Settings{Mock: true, MockRate: time.Second}
		m := s.source()
		const n = 20_000
		tiers, cached, counts := map[string]int{}, map[string]float64{}, map[string]int{}
		for i := range int64(n) {
			r := m.record(i)
			tiers[r.Tier]++
			cached[r.Class] += r.CachedRatio
			counts[r.Class]++
			if r.LatencyMS < 800 || r.LatencyMS > 4000 || (r.Class == "heartbeat" || r.Class == "dream_nrem") && (r.CachedRatio < 0.4 || r.CachedRatio > 0.9) {
				t.Fatalf("%+v", r)
			}
		}
		for tier, want := range map[string]float64{"private": 0.60, "tee": 0.35, "e2e": 0.05} {
			if got := float64(tiers[tier]) / n; math.Abs(got-want) > 0.02 {
				t.Errorf("%s: %f", tier, got)
			}
		}
		for _, class := range []string{"trade", "negotiate"} {
			if cached[class]/float64(counts[class]) >= cached["heartbeat"]/float64(counts["heartbeat"]) {
				t.Errorf("%s is cached as well as heartbeats", class)
			}
		}
		if got := s.MockStatus(); !got.Mock || len(got.Budget) != 3 || len(got.HitRates) < 7 {
			t.Errorf("%+v", got)
		}
		if got := s.MockRecords(7); len(got) != 7 || got[0].Tick <= got[6].Tick {
			t.Errorf("%+v", got)
		}
		if got := s.MockTokens(5); len(got) != 5 || got[0].Measurement != "mock" {
			t.Errorf("%+v", got)
		}
	})
}

func TestP10TheMockIsStreamedAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBridge()
		s := Settings{Mock: true, MockRate: 100 * time.Millisecond}
		f, err := b.Follow("a", "", s)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for range 50 {
			got = append(got, next(t, f)...)
		}
		f.Close()
		events, marked := strings.Count(string(got), "event: "), strings.Count(string(got), `"mock":true`)
		if events != marked || events < 50 || !strings.Contains(string(got), "event: attestation\n") || !strings.Contains(string(got), "event: budget\n") {
			t.Errorf("%d events, %d say that they are made up", events, marked)
		}
		last := ids(got)[len(ids(got))-1]
		f, err = b.Follow("a", last, s)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if again := ids(next(t, f)); again[0] == last || again[0] <= last {
			t.Errorf("after %s: %v", last, again)
		}
	})
}

func TestP10OnlyWhatLooksLikeARayIsRepeated(t *testing.T) {
	s := Look(header.List{{Name: "cf-ray", Value: "8a1b2c3d4e5f-FRA"}, {Name: "x-venice-balance-usd", Value: "12.5"}})
	if s.Ray != "8a1b2c3d4e5f-FRA" || s.Balance == nil || *s.Balance != 12_500_000 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{"", "a b", "<script>", strings.Repeat("a", 65)} {
		if s := Look(header.List{{Name: "cf-ray", Value: bad}, {Name: "x-venice-balance-usd", Value: "many"}}); s.Ray != "" || s.Balance != nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestP10ATokenIsForATimeAndAnAccount(t *testing.T) {
	tokens := &Tokens{Secret: func() []byte { return []byte("secret") }}
	other := &Tokens{Secret: func() []byte { return []byte("other") }}
	now := time.Unix(1_800_000_000, 0)
	of := Token{Account: "key_1", Expires: now.Add(TokenLife).Unix()}
	text, local := tokens.Issue(of), tokens.Issue(Token{Local: true})
	for _, row := range []struct {
		about, text string
		by          *Tokens
		loopback    bool
		after       time.Duration
		ok          bool
	}{
		{"valid", text, tokens, false, 0, true},
		{"just before its end", text, tokens, false, TokenLife - time.Second, true},
		{"expired", text, tokens, false, TokenLife, false},
		{"expired, on this machine", text, tokens, true, TokenLife, false},
		{"of another gateway", text, other, false, 0, false},
		{"changed", "A" + text[1:], tokens, false, 0, false},
		{"without its signature", strings.SplitAfter(text, ".")[0], tokens, false, 0, false},
		{"in another spelling", text[:len(text)-5] + "\n" + text[len(text)-5:], tokens, false, 0, false},
		{"empty", "", tokens, true, 0, false},
		{"a development token", local, tokens, true, 1000 * time.Hour, true},
		{"a development token from elsewhere", local, tokens, false, 0, false},
	} {
		got, err := row.by.Check(row.text, row.loopback, now.Add(row.after))
		if (err == nil) != row.ok || row.ok && row.text == text && got != of {
			t.Errorf("%s: %+v %v", row.about, got, err)
		}
	}
}

// Only issued tokens are accepted.
func FuzzTokens(f *testing.F) {
	tokens := &Tokens{Secret: func() []byte { return []byte("secret") }}
	issued := tokens.Issue(Token{Local: true})
	f.Add(issued)
	f.Add("e30.e30")
	f.Add(".")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := tokens.Check(text, true, time.Unix(0, 0)); err == nil && text != issued {
			t.Errorf("%q was taken", text)
		}
	})
}
