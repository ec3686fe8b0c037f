package structured_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/internal/jsonx"
)

const (
	layers = `"layers":{"hard_shields":{"passed":true,"score":0.9,"detail":"fine"},"position_sizing":{"passed":%v,"score":0.8,"detail":"x"},` +
		`"adaptive_guardrails":{"passed":true,"score":0.9,"detail":"a"},"observation":{"passed":true,"score":0.9,"detail":"b"},` +
		`"defi_threats":{"passed":true,"score":0.9,"detail":"c"}},"warnings":["w"]}`
	beat = `{"severity":%q,"action":%q,"confidence":%v,"rationale":%q,"signals":[],"escalate":%v}`
)

func risk(approved bool, size float64, passed bool) string {
	return fmt.Sprintf(`{"approved":%v,"adjusted_size_usd":%v,`+layers, approved, size, passed)
}

func heartbeat(severity, action string, confidence float64, escalate bool) string {
	return fmt.Sprintf(beat, severity, action, confidence, "because of "+action, escalate)
}

func plan(action, more string) string {
	return fmt.Sprintf(`{"action":%q,"confidence":0.9,"rationale":"r","risk_flags":[]%s}`, action, more)
}

// which of two decisions is the more careful one, in either order.
func TestR29TheStricterDecision(t *testing.T) {
	for _, row := range []struct {
		about, form, strict, lax, by string
	}{
		{"a refusal beats an approval", "RiskAssessment", risk(false, 1000, true), risk(true, 10, false), "approved"},
		{"a smaller size beats a larger one", "RiskAssessment", risk(true, 500, true), risk(true, 1000, false), "adjusted_size_usd"},
		{"of like sizes, more failed layers", "RiskAssessment", risk(true, 1000, false), risk(true, 970, true), "layers.*.passed"},
		{"a higher severity", "HeartbeatDecision", heartbeat("high", "observe", 0.5, false), heartbeat("low", "exit", 0.9, true), "severity"},
		{"who escalates", "HeartbeatDecision", heartbeat("low", "observe", 0.5, true), heartbeat("low", "exit", 0.9, false), "escalate"},
		{"to exit beats to hedge", "HeartbeatDecision", heartbeat("low", "exit", 0.5, false), heartbeat("low", "hedge", 0.9, false), "action"},
		{"to watch beats to trade", "HeartbeatDecision", heartbeat("low", "observe", 0.5, false), heartbeat("low", "rebalance", 0.9, false), "action"},
		{"a halt beats an exit", "CognitionPlan", plan("emergency_halt", ""), plan("exit", ""), "action"},
		{"an exit beats a hedge", "CognitionPlan", plan("exit", ""), plan("hedge", ""), "action"},
		{"a hedge beats a hold", "CognitionPlan", plan("hedge", ""), plan("hold", ""), "action"},
		{"a hold beats an entry", "CognitionPlan", plan("hold", ""), plan("enter", ""), "action"},
		{"what is blocked beats what is not", "CognitionPlan", plan("enter", `,"blocked_by":"limits"`), plan("enter", `,"blocked_by":null`), "blocked_by"},
		{
			"less slippage", "CognitionPlan", plan("enter", `,"parameters":{"slippage_bps":30}`), plan("enter", `,"parameters":{"slippage_bps":300}`),
			"parameters.slippage_bps",
		},
		{"abort", "RiskRationale", `{"risk_score":0.1,"recommendation":"abort"}`, `{"risk_score":0.9,"recommendation":"defer"}`, "recommendation"},
		{"defer", "RiskRationale", `{"risk_score":0.1,"recommendation":"defer"}`, `{"risk_score":0.9,"recommendation":"reduce_size"}`, "recommendation"},
		{"a higher risk", "RiskRationale", `{"risk_score":0.8,"recommendation":"defer"}`, `{"risk_score":0.3,"recommendation":"defer"}`, "risk_score"},
		{"a worse threat", "ThreatAssessment", `{"severity":"critical","likelihood":0.1}`, `{"severity":"low","likelihood":0.9}`, "severity"},
		{"a likelier threat", "ThreatAssessment", `{"severity":"low","likelihood":0.9}`, `{"severity":"low","likelihood":0.1}`, "likelihood"},
		{"a discarded fragment", "FragmentEvaluation", `{"verdict":"discard","novelty":1}`, `{"verdict":"stage","novelty":1}`, "verdict"},
	} {
		t.Run(row.about, func(t *testing.T) {
			one := structured.Compare(row.form, []byte(row.strict), []byte(row.lax))
			two := structured.Compare(row.form, []byte(row.lax), []byte(row.strict))
			if one.Stricter != structured.First || two.Stricter != structured.Second || one.DecidedBy != row.by || two.DecidedBy != row.by {
				t.Errorf("%v by %s; %v by %s", one.Stricter, one.DecidedBy, two.Stricter, two.DecidedBy)
			}
			if one.Same() || two.Same() {
				t.Error("they are the same decision")
			}
		})
	}
}

// paths formats a comparison's fields, those that disagree with a "!".
func paths(c structured.Comparison) string {
	var out []string
	for _, f := range c.Fields {
		mark := ""
		if !f.Agree {
			mark = "!"
		}
		out = append(out, mark+f.Path)
	}
	return strings.Join(out, " ")
}

type compareCase struct {
	about, form, first, second, want string
	same                             bool
}

func TestR29ComparedFieldsAndTolerances(t *testing.T) {
	const scores = " layers.hard_shields.score layers.position_sizing.score layers.adaptive_guardrails.score layers.observation.score layers.defi_threats.score"
	for _, row := range []compareCase{
		{
			"prose is not compared", "HeartbeatDecision", heartbeat("low", "observe", 0.5, false),
			`{"severity":"LOW ","action":"observe","confidence":0.5,"rationale":"quite another","signals":[{"source":"price"}],"escalate":false}`,
			"severity escalate action confidence", true,
		},
		{
			"confidence alone does not make another decision", "HeartbeatDecision", heartbeat("low", "observe", 0.5, false),
			heartbeat("low", "observe", 0.9, false), "severity escalate action !confidence", true,
		},
		{
			"0.8 is near 0.7", "HeartbeatDecision", heartbeat("low", "observe", 0.7, false), heartbeat("low", "observe", 0.8, false),
			"severity escalate action confidence", true,
		},
		{
			"an amount is near one five per cent larger", "RiskAssessment", risk(true, 1000, true), risk(true, 950, true),
			"approved adjusted_size_usd layers.hard_shields.passed layers.position_sizing.passed layers.adaptive_guardrails.passed " +
				"layers.observation.passed layers.defi_threats.passed" + scores, true,
		},
		{
			"a layer", "RiskAssessment", risk(true, 1000, true), risk(true, 1000, false),
			"approved adjusted_size_usd layers.hard_shields.passed !layers.position_sizing.passed layers.adaptive_guardrails.passed " +
				"layers.observation.passed layers.defi_threats.passed" + scores, false,
		},
		{
			"no order, and all counts", "DaimonAppraisal", `{"pleasure":0.1,"arousal":0,"dominance":0,"primary_emotion":"joy"}`,
			`{"pleasure":0.9,"arousal":0.1,"dominance":0,"primary_emotion":"joy"}`, "!pleasure arousal dominance primary_emotion", false,
		},
		{
			"ids in any order", "DreamIntegration", `{"promoted":[{"hypothesis_id":"a"},{"hypothesis_id":"b"}],"staged":[],"discarded":[]}`,
			`{"promoted":[{"hypothesis_id":"b"},{"hypothesis_id":"a"}],"staged":[{"hypothesis_id":"c"}],"discarded":[]}`,
			"promoted !staged discarded", false,
		},
		{"a caller's own form", "", `{"city":"Paris","n":3}`, `{"n":3.01,"city":"paris"}`, "city n", true},
		{"nothing and null", "", `{"city":"Paris","x":null}`, `{"city":"Paris"}`, "city x", true},
		{"one more member", "", `{"city":"Paris"}`, `{"city":"Paris","x":1}`, "city !x", false},
		{"a list of words in any order", "", `{"tags":["a","b"]}`, `{"tags":["b","a"]}`, "tags[]", true},
		{"a list of other words", "", `{"tags":["a","b"]}`, `{"tags":["b","c"]}`, "!tags[]", false},
		{"a list of objects", "", `{"l":[{"a":1},{"a":2}]}`, `{"l":[{"a":1},{"a":3}]}`, "l[0].a !l[1].a", false},
		{"lists of other lengths", "", `{"l":[{"a":1},{"a":2}]}`, `{"l":[{"a":1}]}`, "!l[]", false},
		{
			"a caller's prose", "", `{"n":1,"why":"a text of many words that goes on and on"}`,
			`{"n":1,"why":"another text of many words that goes on and on"}`, "n", true,
		},
		{
			"prose alone", "", `{"why":"a text of many words that goes on and on"}`, `{"why":"another text of many words that goes on and on"}`,
			"!why", false,
		},
		{"digits that no float has", "", `{"wei":123456789012345678901}`, `{"wei":"123456789012345678901"}`, "!wei", false},
		{"text", "", "Yes.", "yes", "", true},
		{"another text", "", "Yes.", "No.", "!", false},
		{"text and JSON", "", "Yes.", `{"a":1}`, "!", false},
		{"a form that nothing is known of", "Elsewhere", `{"a":1}`, `{"a":2}`, "!a", false},
	} {
		t.Run(row.about, func(t *testing.T) { checkCompared(t, row) })
	}
}

func checkCompared(t *testing.T, row compareCase) {
	t.Helper()
	c := structured.Compare(row.form, []byte(row.first), []byte(row.second))
	if paths(c) != row.want || c.Same() != row.same {
		t.Errorf("got %q, %v; want %q, %v", paths(c), c.Same(), row.want, row.same)
	}
	if n := strings.Count(row.want, "!"); c.Agreed() != len(c.Fields)-n {
		t.Errorf("%d of %d agree", c.Agreed(), len(c.Fields))
	}
	if row.same && c.Stricter != structured.Neither {
		t.Errorf("stricter by %s", c.DecidedBy)
	}
}

func TestAComparisonHasBoundedSize(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `,"f%d":[%d]`, i, i)
	}
	long := `{"deep":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + b.String() + `}`
	c := structured.Compare("", []byte(long), []byte(strings.ReplaceAll(long, ":1}", ":2}")))
	if n := len(c.Fields); n > 256 || n < 100 || c.Fields[0].Agree || strings.Count(c.Fields[0].Path, ".") > 40 {
		t.Errorf("%d fields, the first is %q", n, c.Fields[0].Path)
	}
}

// FuzzCompare: an answer agrees with itself and is not stricter than itself; with swapped answers, the result is swapped.
func FuzzCompare(f *testing.F) {
	f.Add("RiskAssessment", risk(true, 1, true), risk(false, 1, true))
	f.Add("HeartbeatDecision", heartbeat("low", "exit", 1, true), heartbeat("high", "exit", 1, true))
	f.Add("", `{"a":[1,"x"]}`, `[{"a":1}]`)
	f.Add("DreamIntegration", `{"promoted":[{"hypothesis_id":"a"}]}`, "text")
	f.Add("CognitionPlan", `{"action":1,"parameters":[]}`, `{"action":null}`)
	f.Fuzz(func(t *testing.T, form, a, b string) {
		one, two := structured.Compare(form, []byte(a), []byte(b)), structured.Compare(form, []byte(b), []byte(a))
		mirrored := [...]structured.Side{structured.Neither, structured.Second, structured.First}
		if two.Stricter != mirrored[one.Stricter] || two.DecidedBy != one.DecidedBy || one.Agreed() != two.Agreed() || one.Same() != two.Same() {
			t.Fatalf("%s %v by %s; %s %v by %s", paths(one), one.Stricter, one.DecidedBy, paths(two), two.Stricter, two.DecidedBy)
		}
		self := structured.Compare(form, []byte(a), []byte(a))
		if !self.Same() || self.Agreed() != len(self.Fields) || self.Stricter != structured.Neither {
			t.Fatalf("an answer is not like itself: %s", paths(self))
		}
		if slices.ContainsFunc(one.Fields, func(f structured.Field) bool { return f.First != nil && jsonx.Valid(f.First) != nil }) {
			t.Fatal("a value is no JSON")
		}
	})
}

// which answers ask for a stronger model.
func TestR23WhichAnswersEscalate(t *testing.T) {
	for _, row := range []struct {
		about, form, answer string
		floor               float64
		want                structured.Escalation
	}{
		{"its own word", "HeartbeatDecision", heartbeat("low", "observe", 0.9, true), 0, structured.Requested},
		{"its action", "HeartbeatDecision", heartbeat("low", "escalate", 0.9, false), 0, structured.Requested},
		{"its confidence", "HeartbeatDecision", heartbeat("low", "observe", 0.3, false), 0.5, structured.LowConfidence},
		{"its own word comes first", "HeartbeatDecision", heartbeat("low", "observe", 0.3, true), 0.5, structured.Requested},
		{"sure enough", "HeartbeatDecision", heartbeat("low", "observe", 0.5, false), 0.5, structured.NoEscalation},
		{"no floor", "HeartbeatDecision", heartbeat("low", "observe", 0, false), 0, structured.NoEscalation},
		{"no confidence is no lack of it", "HeartbeatDecision", `{"escalate":false}`, 0.5, structured.NoEscalation},
		{"another form", "CognitionPlan", `{"escalate":true,"confidence":0}`, 0.5, structured.NoEscalation},
		{"no form", "", `{"escalate":true}`, 0.5, structured.NoEscalation},
		{"no JSON", "HeartbeatDecision", "escalate", 0.5, structured.NoEscalation},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := structured.Escalates(row.form, []byte(row.answer), row.floor); got != row.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
