package profile_test

import (
	"encoding/json"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/goldentest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

var update = flag.Bool("update", false, "write the golden file anew")

var now = time.Date(2026, 8, 5, 12, 0, 0, 0, time.UTC)

// build makes a profile by the built-in table, and fails without one.
func build(t *testing.T, p *profile.Profiles, h policy.Hints) *profile.Decision {
	t.Helper()
	d := p.Build(&h, nil, now)
	if d == nil {
		t.Fatalf("%+v gives no profile", h)
	}
	return d
}

func settings(t *testing.T, s profile.Settings) *profile.Profiles {
	t.Helper()
	p, warnings := profile.New(s)
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	return p
}

// TestTheTable compares the values of every subsystem with a file that has the master tables, line by line.
func TestTheTable(t *testing.T) {
	names := profile.Names()
	if len(names) != 21 {
		t.Errorf("%d rows: %v", len(names), names)
	}
	var b strings.Builder
	for _, name := range names {
		d := build(t, settings(t, profile.Settings{WebSearch: true, SealTestaments: true, AttestDreams: true}),
			policy.Hints{Subsystem: name, GolemID: "g1"})
		line, err := json.Marshal(shown(d))
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(name + " " + string(line) + "\n")
	}
	golden(t, "testdata/table.golden", b.String())
}

// shown returns a decision without its unset values.
func shown(d *profile.Decision) map[string]any {
	out := map[string]any{}
	add := func(prefix string, p chat.Params) {
		v := reflect.ValueOf(p)
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				out[prefix+v.Type().Field(i).Name] = reflect.Indirect(f).Interface()
			}
		}
	}
	add("", d.Profile.Default)
	add("locked ", d.Profile.Locked)
	if d.Applied.SchemaName != "" {
		out["answers"] = d.Applied.SchemaName
	}
	if d.Profile.MaxTokens > 0 {
		out["MaxTokens"] = d.Profile.MaxTokens
	}
	return out
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	goldentest.Compare(t, file, got, *update)
}

func TestD04PartsWithoutARowUseTheirClosest(t *testing.T) {
	for subsystem, row := range map[string]string{
		"death": "death_reflect", "dream": "dream_rem", "session_compact": "curator", "session": "curator", "heartbeat_t0": "",
		"context": "heartbeat_t1", "autonomous": "heartbeat_t1", "social": "heartbeat_t1", "risk": "risk", "other": "", "": "",
	} {
		switch got := profile.RowOf(subsystem); {
		case got == nil && row != "", got != nil && got.Name != row:
			t.Errorf("%s has the row %v, want %q", subsystem, got, row)
		}
	}
	for _, name := range profile.Names() {
		if !intent.Known(name) {
			t.Errorf("%s has no intent", name)
		}
	}
}

func TestOrdinaryRequestsHaveNoProfile(t *testing.T) {
	for _, h := range []policy.Hints{{}, {SessionID: "s", Surface: "tui", GolemID: "g"}} {
		if d := settings(t, profile.Settings{}).Build(&h, nil, now); d != nil {
			t.Errorf("%+v has %+v", h, d.Profile)
		}
	}
	var none *profile.Profiles
	h := policy.Hints{}
	if n := testing.AllocsPerRun(10, func() { none.Build(&h, nil, now) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestD20Precedence(t *testing.T) {
	owner := settings(t, profile.Settings{Overrides: map[string]policy.Profile{
		"heartbeat_t1": {Temperature: new(0.2), Seed: new(int64(7))}, "dream_rem": {Temperature: new(1.0), MinP: new(0.08)},
	}})
	d := build(t, owner, policy.Hints{Subsystem: "heartbeat_t1", Profile: &policy.Profile{Temperature: new(0.25)}})
	want := chat.Params{Temperature: "0.25", TopP: "0.9", Seed: "7", Effort: "low", MarkCache: true}
	if !reflect.DeepEqual(d.Profile.Default, want) {
		t.Errorf("got %+v, want %+v", d.Profile.Default, want)
	}
	if d = build(t, owner, policy.Hints{Subsystem: "dream_rem", REMCall: 4}); d.Profile.Default.Temperature != "1" || d.Profile.Default.MinP != "0.08" {
		t.Errorf("got %+v", d.Profile.Default)
	}
	// The client's own parameters override everything.
	if p, _ := d.Profile.Over(chat.Params{Temperature: "0.55"}); p.Temperature != "0.55" {
		t.Errorf("got %+v", p)
	}
	// Setting one of two exclusive sampling parameters excludes the other.
	d = build(t, nil, policy.Hints{Subsystem: "dream_rem", Profile: &policy.Profile{TopP: new(0.5)}})
	if d.Profile.Default.MinP != "" || d.Profile.Default.TopP != "0.5" {
		t.Errorf("got %+v", d.Profile.Default)
	}
}

func TestLockedProfilesOfTheOwnerAreIgnoredWithAWarning(t *testing.T) {
	p, warnings := profile.New(profile.Settings{Overrides: map[string]policy.Profile{
		"risk": {Temperature: new(1.0)}, "death": {Temperature: new(1.0)}, "heartbeat_t9": {}, "curator": {TopK: new(5)},
	}})
	if len(warnings) != 3 || !strings.Contains(warnings[0], "death") || !strings.Contains(warnings[1], "heartbeat_t9: no subsystem with a profile has this name, the nearest is heartbeat_t1;") || !strings.Contains(warnings[2], "risk") {
		t.Errorf("warnings are %q", warnings)
	}
	if d := build(t, p, policy.Hints{Subsystem: "risk"}); d.Profile.Locked.Temperature != "0.1" {
		t.Errorf("risk has %+v", d.Profile.Locked)
	}
	if d := build(t, p, policy.Hints{Subsystem: "curator"}); d.Profile.Default.TopK != "5" {
		t.Errorf("curator has %+v", d.Profile.Default)
	}
}

func TestD27EffortWithoutAPart(t *testing.T) {
	for quality, effort := range map[string]string{"": "", "minimum": "low", "low": "low", "medium": "medium", "high": "high", "maximum": "high"} {
		q, _ := policy.ParseQuality(quality)
		d := settings(t, profile.Settings{}).Build(&policy.Hints{Quality: q, Role: "x"}, nil, now)
		if got := d.Profile.Default.Effort; got != effort {
			t.Errorf("%s thinks %q, want %q", quality, got, effort)
		}
	}
}

func TestD28CacheKeys(t *testing.T) {
	for _, row := range []struct{ prefix, golem, subsystem, cycle, want string }{
		{"", "7", "heartbeat_t1", "", "golem-7-heartbeat_t1"},
		{"", "7", "dream_rem", "c3", "dream-rem-7"},
		{"", "7", "dream_nrem", "c3", "golem-7-dream_nrem-c3"},
		{"", "7", "dream_nrem", "", "golem-7-dream_nrem"},
		{"acme", "7", "curator", "", "acme-7-curator"},
		{"", "7", "session_compact", "", "golem-7-session_compact"},
		{"", "", "heartbeat_t1", "", ""},
		{"", "7", "daimon", "", ""},
	} {
		d := build(t, settings(t, profile.Settings{KeyPrefix: row.prefix}),
			policy.Hints{Subsystem: row.subsystem, GolemID: row.golem, DreamCycleID: row.cycle})
		if got := d.Profile.Default.CacheKey; got != row.want {
			t.Errorf("%+v has the key %q", row, got)
		}
	}
}

func TestDreamsSearchTheWebWhereTheyKnowTooLittle(t *testing.T) {
	on, off := settings(t, profile.Settings{WebSearch: true}), settings(t, profile.Settings{})
	known, unknown := policy.Entity{Name: "a", Episodes: 3}, policy.Entity{Name: "b", Episodes: 2}
	for _, row := range []struct {
		about    string
		p        *profile.Profiles
		scenario policy.Scenario
		hint     *bool
		want     *bool
	}{
		{"not allowed", off, policy.Scenario{Entities: []policy.Entity{unknown}}, nil, nil},
		{"well known", on, policy.Scenario{Entities: []policy.Entity{known}}, nil, new(false)},
		{"hardly known", on, policy.Scenario{Entities: []policy.Entity{known, unknown}}, nil, new(true)},
		{"of three days ago", on, policy.Scenario{Times: []time.Time{now.Add(-72 * time.Hour)}}, nil, new(true)},
		{"of longer ago", on, policy.Scenario{Times: []time.Time{now.Add(-73 * time.Hour)}}, nil, new(false)},
		{"not told", on, policy.Scenario{}, nil, new(true)},
		{"not told, and refused by the caller", on, policy.Scenario{}, new(false), new(false)},
	} {
		t.Run(row.about, func(t *testing.T) {
			d := build(t, row.p, policy.Hints{Subsystem: "dream_rem", Scenario: row.scenario, WebSearch: row.hint})
			if got := d.Profile.Default.WebSearch; !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWhatALockedProfileDoesNotTakeIsNamed(t *testing.T) {
	d := build(t, nil, policy.Hints{Subsystem: "risk", Profile: &policy.Profile{Seed: new(int64(1)), Temperature: new(1.0), Stop: []string{"x"}}})
	if want := []string{"temperature", "stop_sequences", "seed"}; !slices.Equal(d.Ignored, want) {
		t.Errorf("ignored %v", d.Ignored)
	}
}

func TestWishesComeFromTheIntent(t *testing.T) {
	in := intent.Of("risk")
	in.Security = policy.SecurityConfidential
	c := profile.New
	p, _ := c(profile.Settings{})
	d := p.Build(&policy.Hints{Subsystem: "risk", Quality: policy.QualityLow}, &in, now)
	if d.Profile.Quality != "maximum" || !d.Profile.Confidential || d.Profile.MaxLatency != 30*time.Second || d.Profile.CostSensitivity != 0 {
		t.Errorf("got %+v", d.Profile)
	}
	if d = p.Build(&policy.Hints{SecurityClass: policy.SecurityConfidential}, nil, now); d == nil || !d.Profile.Confidential {
		t.Errorf("got %+v", d)
	}
}

// TestMarksForCachesCanBeTurnedOff: by the owner for all parts, by a hint for one request; a hint asks for them, too, where the table does not.
func TestMarksForCachesCanBeTurnedOff(t *testing.T) {
	hint := func(b bool) *policy.Profile { return &policy.Profile{CacheControl: &b} }
	for _, row := range []struct {
		about, subsystem string
		off              bool
		hint             *policy.Profile
		marked           bool
	}{
		{"the table asks for them", "heartbeat_t1", false, nil, true},
		{"the table does not", "daimon", false, nil, false},
		{"the owner wants none", "heartbeat_t1", true, nil, false},
		{"the caller wants none", "heartbeat_t1", false, hint(false), false},
		{"the caller asks for them", "daimon", true, hint(true), true},
	} {
		d := build(t, settings(t, profile.Settings{NoMarks: row.off}), policy.Hints{Subsystem: row.subsystem, Profile: row.hint})
		if d.Profile.Default.MarkCache != row.marked {
			t.Errorf("%s: marked is %v", row.about, d.Profile.Default.MarkCache)
		}
	}
}

// TestAClassWhoseTierIsAnEnclaveRunsInOne: not only the flag chooses the model there, with and without a profile, a locked one included.
func TestAClassWhoseTierIsAnEnclaveRunsInOne(t *testing.T) {
	for _, subsystem := range []string{"", "heartbeat_t2", "risk"} {
		h := policy.Hints{Subsystem: subsystem, TaskClass: "trade"}
		for tier, want := range map[policy.PrivacyTier]bool{policy.PrivacyUnset: false, policy.PrivacyNoLog: false, policy.PrivacyTEE: true, policy.PrivacyEndToEnd: false} {
			d := (&profile.Profiles{}).Build(&h, &policy.Intent{Subsystem: subsystem, PrivacyTier: tier}, time.Time{})
			if got := d != nil && d.Profile.Default.TEE; got != want {
				t.Errorf("%q at tier %q: %v", subsystem, tier, got)
			}
		}
	}
}
