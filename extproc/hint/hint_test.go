package hint_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// key is one hint: its value in a header, in JSON, and the parsed result. other is another value of it in JSON.
type key struct {
	text, json, other string
	want              policy.Hints
}

var seed = int64(7)

// d03 are the hints as D-03 lists them.
var d03 = map[string]key{
	"golem_id":         {"0xAb:8453/7", `"0xAb:8453/7"`, `0`, policy.Hints{GolemID: "0xAb:8453/7"}},
	"subsystem":        {"dream_rem", `"dream_rem"`, `"risk"`, policy.Hints{Subsystem: "dream_rem"}},
	"tick":             {"12345678901", `12345678901`, `1`, policy.Hints{Tick: 12345678901}},
	"tick_type":        {"MarketAnalysis", `"MarketAnalysis"`, `"RiskCheck"`, policy.Hints{TickType: "MarketAnalysis"}},
	"vitality":         {"0.25", `0.25`, `1`, policy.Hints{Vitality: new(0.25)}},
	"phase":            {"DESPERATE", `"Desperate"`, `"stable"`, policy.Hints{Phase: policy.PhaseDeclining}},
	"regime":           {"high_volatility", `"high_volatility"`, `"calm"`, policy.Hints{Regime: "high_volatility"}},
	"task_class":       {"sealed-auction", `"SealedAuction"`, `"trade"`, policy.Hints{TaskClass: "sealed_auction"}},
	"security_class":   {"Private", `"private"`, `"confidential"`, policy.Hints{SecurityClass: policy.SecurityPrivate}},
	"session_id":       {"s-1", `"s-1"`, `"s-2"`, policy.Hints{SessionID: "s-1"}},
	"surface":          {"Discord", `"discord"`, `"api"`, policy.Hints{Surface: "discord"}},
	"dream_cycle_id":   {"42", `42`, `"43"`, policy.Hints{DreamCycleID: "42"}},
	"dali_step":        {"3", `3`, `4`, policy.Hints{DaliStep: 3}},
	"dali_total_steps": {"8", `8`, `9`, policy.Hints{DaliTotalSteps: 8}},
	"dali_cycle":       {"2", `2`, `1`, policy.Hints{DaliCycle: 2}},
	"scenario": {
		`{"entities":["Aave",{"name":"Pendle v2","episodes":4}],"temporal_references":["2026-03-01T10:00:00+02:00","2026-03-02",1772600000]}`,
		`{"entities":["Aave",{"name":"Pendle v2","episodes":4}],"temporal_references":["2026-03-01T10:00:00+02:00","2026-03-02",1772600000]}`, `{}`,
		policy.Hints{Scenario: policy.Scenario{
			Entities: []policy.Entity{{Name: "Aave"}, {Name: "Pendle v2", Episodes: 4}},
			Times: []time.Time{
				time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), time.Unix(1772600000, 0).UTC(),
			},
		}},
	},
	"pipeline":         {"fast", `"fast"`, `"full"`, policy.Hints{Pipeline: "fast"}},
	"require":          {"private, tools,,tools", `["private","tools","tools"]`, `[]`, policy.Hints{Require: []policy.Feature{policy.Privacy, policy.Tools}}},
	"prefer":           {"response_schema", `["response_schema"]`, `["tools"]`, policy.Hints{Prefer: []policy.Feature{policy.StructuredOutputs}}},
	"quality":          {"Maximum", `"maximum"`, `"low"`, policy.Hints{Quality: policy.QualityMaximum}},
	"cost_sensitivity": {"0", `0`, `1`, policy.Hints{CostSensitivity: new(0.0)}},
	"diem_available":   {"true", `true`, `false`, policy.Hints{DIEMAvailable: true}},
	"privacy_tier":     {"e2ee", `"e2e"`, `"tee"`, policy.Hints{PrivacyTier: policy.PrivacyEndToEnd}},
	"role":             {"risk-assessor", `"risk-assessor"`, `"poet"`, policy.Hints{Role: "risk-assessor"}},
	"verify":           {"1", `true`, `false`, policy.Hints{Verify: true}},
	"hedge":            {"Off", `"off"`, `"auto"`, policy.Hints{NoHedge: true}},
	"escalate":         {"Auto", `"auto"`, `"off"`, policy.Hints{Escalate: new(true)}},
	"daily_budget_usd": {"1.25", `1.25`, `"2"`, policy.Hints{DailyBudget: 1_250_000}},
	"induction_step":   {"5", `5`, `6`, policy.Hints{InductionStep: 5}},
	"rem_call":         {"4", `4`, `1`, policy.Hints{REMCall: 4}},
	"max_latency_ms":   {"1500", `1500`, `1`, policy.Hints{MaxLatency: 1500 * time.Millisecond}},
	"no_cache":         {"TRUE", `true`, `false`, policy.Hints{NoCache: true}},
	"web_search":       {"false", `false`, `true`, policy.Hints{WebSearch: new(false)}},
	"tee":              {"true", `true`, `false`, policy.Hints{TEE: new(true)}},
	"profile": {whole, whole, `{"temperature":2}`, policy.Hints{Profile: &policy.Profile{
		Temperature: new(0.3), TopP: new(0.9), TopK: new(40), MinP: new(0.1), FrequencyPenalty: new(-2.0), PresencePenalty: new(0.5),
		Effort: policy.EffortHigh, VisibleThinking: new(true), Schema: []byte(`{"type": "object"}`), SchemaName: "Decision", MaxTokens: 100,
		Stop: []string{"\n", "END"}, PromptCacheKey: "golem-7-risk", CacheControl: new(false), WebSearch: new(true), TEE: new(false),
		PredictedOutput: "# Playbook\n", Seed: &seed,
	}}},
}

const whole = `{"temperature":0.3,"top_p":0.9,"top_k":40,"min_p":0.1,"frequency_penalty":-2,"presence_penalty":0.5,"reasoning_effort":"High",
	"visible_thinking":true,"response_schema":{"name":"Decision","schema":{"type": "object"},"strict":true},"max_tokens":100,
	"stop_sequences":["\n","END"],"prompt_cache_key":"golem-7-risk","cache_control":false,"web_search":true,"tee_mode":false,
	"predicted_output":"# Playbook\n","seed":7}`

func headerOf(name, text string) header.Field {
	return header.Field{Name: "x-bardo-" + strings.ReplaceAll(name, "_", "-"), Value: text}
}

// read reads hints of both places.
func read(t testing.TB, body string, l ...header.Field) (h policy.Hints, err error) {
	t.Helper()
	said, err := hint.FromHeaders(l, &h)
	if err != nil || body == "" {
		return h, err
	}
	doc, err := jsonx.Scan([]byte(`{"bardo":` + body + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return h, hint.FromBody(doc.Get("bardo"), said, &h)
}

func TestD03EveryHintIsReadInBothPlacesAndHeadersWin(t *testing.T) {
	if keys := hint.Keys(); len(keys) != len(d03) {
		t.Errorf("%d keys are read, D-03 has %d", len(keys), len(d03))
	}
	for name, k := range d03 {
		t.Run(name, func(t *testing.T) {
			in := headerOf(name, k.text)
			for _, place := range []struct {
				about, body string
				l           header.List
			}{
				{"header", "", header.List{in}},
				{"body", `{"` + name + `":` + k.json + `}`, nil},
				{"header over body", `{"` + name + `":` + k.other + `}`, header.List{in}},
				{"header over nonsense", `{"` + name + `":{"nonsense":[]}}`, header.List{in}},
			} {
				got, err := read(t, place.body, place.l...)
				if err != nil || !reflect.DeepEqual(got, k.want) {
					t.Errorf("%s: got %+v, %v", place.about, got, err)
				}
			}
			if got, err := read(t, `{"`+name+`":null}`); err != nil || !reflect.DeepEqual(got, policy.Hints{}) {
				t.Errorf("null is not nothing: %+v, %v", got, err)
			}
			if got, err := read(t, `{"`+name+`":`+k.other+`}`); err != nil || reflect.DeepEqual(got, k.want) {
				t.Errorf("the other value is the same: %v", err)
			}
		})
	}
}

func TestHintsOfHeadersAndBodyAreMerged(t *testing.T) {
	got, err := read(t, `{"golem_id":"g","require":["vision"],"tick":4}`, headerOf("tick", "5"), headerOf("prefer", "tools"), headerOf("prefer", "vision"))
	want := policy.Hints{GolemID: "g", Tick: 5, Require: []policy.Feature{policy.Vision}, Prefer: []policy.Feature{policy.Tools, policy.Vision}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestD03InvalidHintsAreNamed(t *testing.T) {
	long := strings.Repeat("a", 5000)
	for _, row := range []struct{ name, text, json, want string }{
		{"golem_id", "", `""`, "expected 1 to 128"},
		{"golem_id", "a b", `"a b"`, "expected 1 to 128"},
		{"golem_id", strings.Repeat("a", 129), `true`, "expected 1 to 128"},
		{"session_id", long, `"` + long + `"`, "expected 1 to 128"},
		{"subsystem", "Risk", `7`, "a-z, 0-9 and _"},
		{"subsystem", "", `""`, "a-z, 0-9 and _"},
		{"tick", "-1", `1.5`, "expected a whole number"},
		{"tick", "99999999999999999999", `1e3`, "expected a whole number"},
		{"vitality", "NaN", `"0.5"`, "expected a number from 0 to 1"},
		{"vitality", "1.01", `-0.1`, "expected a number from 0 to 1"},
		{"vitality", "Inf", `1e999`, "expected a number from 0 to 1"},
		{"vitality", "0x1p-2", `[]`, "expected a number from 0 to 1"},
		{"cost_sensitivity", "", `2`, "expected a number from 0 to 1"},
		{"phase", "dying", `1`, "thriving, stable"},
		{"security_class", "secret", `true`, "standard, confidential or private"},
		{"task_class", "sealed_acution", `"SealedAcution"`, "did you mean sealed_auction?"},
		{"task_class", "zzz", `3`, "expected one of heartbeat"},
		{"surface", "watch", `null1`, "expected one of api"},
		{"pipeline", "slow", `"slow"`, "expected one of minimal"},
		{"require", "privacyy", `["tools","privacyy"]`, "did you mean privacy?"},
		{"require", "zzzzzzzz", `["zzzzzzzz"]`, "there are privacy,"},
		{"prefer", "visible_thinkin", `"tools"`, ""},
		{"quality", "best", `5`, "minimum, low"},
		{"privacy_tier", "none", `"none"`, "private, tee or e2e"},
		{"diem_available", "yes", `"true"`, "expected true or false"},
		{"daily_budget_usd", "-1", `"a lot"`, "expected a number"},
		{"max_latency_ms", "0", `86400001`, "expected a whole number"},
		{"rem_call", "-1", `10001`, "expected a whole number"},
		{"scenario", "[]", `"x"`, "expected an object"},
		{"scenario", `{"entities":[""]}`, `{"entities":[{"episodes":1}]}`, ".entities[0]"},
		{"scenario", `{"entities":"x"}`, `{"temporal_references":["yesterday"]}`, "expected a"},
		{"profile", "{", `[]`, "object"},
		{"profile", `{"temperature":2.1}`, `{"temperature":"hot"}`, "profile.temperature: expected a number from 0 to 2"},
		{"profile", `{"response_schema":{"strict":true}}`, `{"response_schema":{"schema":"x"}}`, ".response_schema.schema"},
		{"profile", `{"seed":1,"seed":2}`, `{"seed":1,"seed":2}`, "given twice"},
		{"profile", `{"Temperature":0}`, `{"Temperature":0}`, "temperature: is not a hint: names are case-sensitive, write temperature"},
		{"profile", `{"response_schema":{"name":"n","Schema":{}}}`, `{"response_schema":{"name":"n","Schema":{}}}`, ".response_schema.schema: is not a hint"},
		{"profile", `{"stop_sequences":["a",""]}`, `{"stop_sequences":["a",""]}`, ".stop_sequences[1]"},
		{"profile", `{"max_tokens":0}`, `{"max_tokens":0}`, ".max_tokens"},
		{"profile", "{}" + strings.Repeat(" ", 17000) + "{}", `{"reasoning_effort":"huge"}`, ""},
	} {
		t.Run(fmt.Sprintf("%s %.20q", row.name, row.text), func(t *testing.T) {
			titled := strings.ReplaceAll(row.name, "_", "-")
			_, err := read(t, "", headerOf(row.name, row.text))
			invalidHint(t, err, "X-Bardo-", titled, strings.ReplaceAll(row.want, "profile.", "X-Bardo-Profile."))
			if row.json == "null1" {
				return
			}
			_, err = read(t, `{"`+row.name+`":`+row.json+`}`)
			f := invalidHint(t, err, "bardo.", row.name, row.want)
			if f != nil && !strings.HasPrefix(f.Param, "bardo."+row.name) {
				t.Errorf("the parameter is %q", f.Param)
			}
		})
	}
}

// invalidHint checks that an error names a hint and describes the problem briefly.
func invalidHint(t *testing.T, err error, prefix, name, want string) *fault.Fault {
	t.Helper()
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != fault.InvalidRequest {
		t.Errorf("%s: error is %v", name, err)
		return nil
	}
	if !strings.HasPrefix(strings.ToLower(f.Public), strings.ToLower(prefix+name)) || !strings.Contains(strings.ToLower(f.Public), strings.ToLower(want)) || len(f.Public) > 700 {
		t.Errorf("%s: %s", name, f.Public)
	}
	return f
}

func TestTheBodysHintsAreAnObjectWithoutDuplicates(t *testing.T) {
	for body, want := range map[string]string{
		`"static"`: "bardo: expected an object, not \"static\"", `[]`: "bardo: expected an object, not an array", `1`: "bardo: expected an object, not 1",
		`{"tick":1,"tick":2}`: "bardo.tick: is given twice",
		`{"profile":{"predicted_output":"` + strings.Repeat("x", 1<<20) + `"}}`: "bardo: is too long",
	} {
		_, err := read(t, body)
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Public != want {
			t.Errorf("%.30s: %v", body, err)
		}
	}
	_, err := read(t, "", headerOf("tick", "1"), headerOf("tick", "1"))
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Public != "X-Bardo-Tick is given twice" {
		t.Errorf("error is %v", err)
	}
}

func TestNamesOfOtherPartsAreOne(t *testing.T) {
	for _, h := range []header.List{{headerOf("subsystem", "my_own_part")}, nil} {
		body := ""
		if h == nil {
			body = `{"subsystem":"my_own_part"}`
		}
		if got, err := read(t, body, h...); err != nil || got.Subsystem != hint.OtherSubsystem {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestUnknownKeysAreReportedAndNeverAnError(t *testing.T) {
	got, err := read(t, `{"golemid":"x","mood":{},"profile":{"tempreture":1},"scenario":{"mood":1}}`,
		headerOf("golem", "x"), headerOf("cache", "force"), headerOf("replay", "fast"), headerOf("reasoning", "full"), headerOf("route", "explain"),
		header.Field{Name: "x-bardo-", Value: "x"}, header.Field{Name: "x-other", Value: "y"})
	want := []string{"X-Bardo-Golem", "bardo.golemid", "bardo.mood", "profile.tempreture", "scenario.mood"}
	if err != nil || !reflect.DeepEqual(got.Unknown, want) {
		t.Errorf("unknown are %q, %v", got.Unknown, err)
	}
	const warning = "unknown hints: X-Bardo-Golem (did you mean golem_id?), bardo.golemid (did you mean golem_id?), bardo.mood, " +
		"profile.tempreture (did you mean temperature?), scenario.mood"
	if w := hint.Warning(&got); w != warning {
		t.Errorf("the warning is %q", w)
	}
	if hint.Warning(&policy.Hints{}) != "" {
		t.Error("a warning of nothing")
	}
}

// TestAnUnknownSubsystemIsNamed, with a suggestion; it counts as "other".
func TestAnUnknownSubsystemIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"risk": "", "other": "", "dream_rem": "", "session": "",
		"risc":         "unknown subsystem: risc (did you mean risk?)",
		"dream_rme":    "unknown subsystem: dream_rme (did you mean dream_rem?)",
		"tail_wagging": "unknown subsystem: tail_wagging",
	} {
		for _, got := range []func() (policy.Hints, error){
			func() (policy.Hints, error) { return read(t, `{}`, headerOf("subsystem", name)) },
			func() (policy.Hints, error) { return read(t, `{"subsystem":"`+name+`"}`) },
		} {
			h, err := got()
			if w := hint.Warning(&h); err != nil || w != want {
				t.Errorf("%s: the warning is %q, %v, want %q", name, w, err, want)
			}
		}
	}
	h, err := read(t, `{"mood":1}`, headerOf("subsystem", "risc"))
	if w := hint.Warning(&h); err != nil || w != "unknown subsystem: risc (did you mean risk?); unknown hints: bardo.mood" {
		t.Errorf("with an unknown hint: %q, %v", w, err)
	}
}

func TestAWarningIsBoundedAndFitsIntoAHeader(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `"é\r\nX: %d%s":1,`, i, strings.Repeat("z", 500))
	}
	got, err := read(t, `{`+b.String()+`"tick":1}`)
	w := hint.Warning(&got)
	if err != nil || len(got.Unknown) > 8 || len(w) > 1500 || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("%d unknown, warning of %d bytes: %.200q, %v", len(got.Unknown), len(w), w, err)
	}
}

// TestHintsDoNotReferToTheBody: bodies are in buffers that are reused.
func TestHintsDoNotReferToTheBody(t *testing.T) {
	b := []byte(`{"bardo":{"golem_id":"golem","subsystem":"risk","profile":{"response_schema":{"name":"n","schema":{"a":1}},"stop_sequences":["stop"]}}}`)
	doc, err := jsonx.Scan(b)
	if err != nil {
		t.Fatal(err)
	}
	var h policy.Hints
	if err := hint.FromBody(doc.Get("bardo"), 0, &h); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 'x'
	}
	if h.GolemID != "golem" || h.Subsystem != "risk" || string(h.Profile.Schema) != `{"a":1}` || h.Profile.SchemaName != "n" || h.Profile.Stop[0] != "stop" {
		t.Errorf("got %+v %+v", h, h.Profile)
	}
}

var plain = header.List{
	{Name: "content-type", Value: "application/json"},
	{Name: "authorization", Value: "Bearer x"},
	{Name: "x-bardo-cache", Value: "force"},
	{Name: "user-agent", Value: "OpenAI/Python"},
	{Name: "x-request-id", Value: "1"},
}

func TestARequestWithoutHintsAllocatesNothing(t *testing.T) {
	var h policy.Hints
	if n := testing.AllocsPerRun(100, func() {
		said, err := hint.FromHeaders(plain, &h)
		if err != nil || said != 0 || hint.FromBody(jsonx.Value{}, said, &h) != nil {
			t.Fatal("it has hints")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzHints(f *testing.F) {
	for name, k := range d03 {
		f.Add("x-bardo-"+strings.ReplaceAll(name, "_", "-"), k.text, []byte(`{"`+name+`":`+k.json+`}`))
	}
	f.Add("x-bardo-x", "", []byte(`{"a":{"b":[]},"profile":{"x":{}}}`))
	f.Fuzz(func(t *testing.T, name, text string, body []byte) {
		var h policy.Hints
		said, err := hint.FromHeaders(header.List{{Name: strings.ToLower(name), Value: text}}, &h)
		if err == nil && jsonx.Valid(body) == nil {
			v, perr := jsonx.Parse(body)
			if perr != nil {
				t.Fatal(perr)
			}
			err = hint.FromBody(v, said, &h)
		}
		if f, ok := errors.AsType[*fault.Fault](err); err != nil && (!ok || f.Kind != fault.InvalidRequest || len(f.Public) > 2000) {
			t.Fatalf("error is %v", err)
		}
		w := hint.Warning(&h)
		if len(w) > 2000 || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("warning is %q", w)
		}
		for _, v := range []*float64{h.Vitality, h.CostSensitivity} {
			if v != nil && !(*v >= 0 && *v <= 1) {
				t.Fatalf("out of range: %v", *v)
			}
		}
		if len(h.GolemID) > 128 || len(h.Subsystem) > 64 || len(h.Require) > len(policy.Features()) || len(h.Scenario.Entities) > 64 || h.DailyBudget < 0 {
			t.Fatalf("beyond its bounds: %+v", h)
		}
	})
}

func BenchmarkHints(b *testing.B) {
	golem := append(header.List{}, plain...)
	for _, f := range []header.Field{
		headerOf("golem_id", "0xabc"), headerOf("subsystem", "heartbeat_t1"), headerOf("tick", "17"), headerOf("vitality", "0.8"), headerOf("phase", "stable"),
	} {
		golem = append(golem, f)
	}
	doc, err := jsonx.Scan([]byte(`{"bardo":{"regime":"calm","task_class":"heartbeat","session_id":"s","require":["tools"]}}`))
	if err != nil {
		b.Fatal(err)
	}
	for name, row := range map[string]struct {
		l    header.List
		body jsonx.Value
	}{"none": {plain, jsonx.Value{}}, "a golem": {golem, doc.Get("bardo")}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var h policy.Hints
			for b.Loop() {
				h = policy.Hints{}
				said, err := hint.FromHeaders(row.l, &h)
				if err == nil {
					err = hint.FromBody(row.body, said, &h)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
