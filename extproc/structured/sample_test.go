package structured_test

import (
	"testing"

	"bardo.money/gateway/extproc/structured"
)

// sample is an answer that follows a schema, and its possible errors: a part of its text, and the replacement.
type sample struct {
	form    string
	valid   string
	outside [2]string // a number out of its range
	issue   string    // the reported issue
	unknown [2]string // a value outside the enum; empty if there is none
	missing [2]string // a member taken away
	gone    string    // its name
}

var samples = []sample{
	{
		form:    "HeartbeatDecision",
		valid:   `{"severity":"high","action":"hedge","confidence":0.80,"rationale":"Volume {fell} \"fast\".","signals":[{"source":"volume","description":"-60%","magnitude":1}],"escalate":false}`,
		outside: [2]string{`0.80`, `1.5`}, issue: "confidence: 1.5 is more than the maximum, 1",
		unknown: [2]string{`"high"`, `"extreme"`}, missing: [2]string{`"action":"hedge",`, ``}, gone: "action",
	},
	{
		form:    "DaimonAppraisal",
		valid:   `{"pleasure":-0.25,"arousal":0.5,"dominance":0,"primary_emotion":"fear","secondary_emotion":null,"trigger":"a drawdown","memory_bias":"losses"}`,
		outside: [2]string{`-0.25`, `-1.01`}, issue: "pleasure: -1.01 is less than the minimum, -1",
		unknown: [2]string{`"fear"`, `"hunger"`}, missing: [2]string{`"trigger":"a drawdown",`, ``}, gone: "trigger",
	},
	{
		form: "RiskAssessment",
		valid: `{"approved":true,"adjusted_size_usd":1250.50,"layers":{"hard_shields":{"passed":true,"score":1,"detail":""},"position_sizing":{"passed":true,"score":0.5,"detail":""},` +
			`"adaptive_guardrails":{"passed":true,"score":0.5,"detail":""},"observation":{"passed":true,"score":0.5,"detail":""},"defi_threats":{"passed":true,"score":0.7,"detail":""}},"warnings":[]}`,
		outside: [2]string{`1250.50`, `-1`}, issue: "adjusted_size_usd: -1 is less than the minimum, 0",
		missing: [2]string{`"approved":true,`, ``}, gone: "approved",
	},
	{
		form:    "CuratorEvaluation",
		valid:   `{"entries_evaluated":3,"entries_retained":2,"entries_pruned":1,"cross_references":[{"source_id":"a","target_id":"b","relationship":"extends"}],"promotions":[{"entry_id":"a","from_confidence":0.1,"to_confidence":0.9,"reason":"seen"}],"grimoire_health":0.75}`,
		outside: [2]string{`0.75`, `7.5`}, issue: "grimoire_health: 7.5 is more than the maximum, 1",
		unknown: [2]string{`"extends"`, `"denies"`}, missing: [2]string{`"entries_pruned":1,`, ``}, gone: "entries_pruned",
	},
	{
		form:    "ReplayAnalysis",
		valid:   `{"episode_id":"e1","lessons":[{"insight":"wait","confidence":0.4,"applicable_conditions":"thin books"}],"surprise_score":0.2,"counterfactuals":[],"arousal_delta":-0.1}`,
		outside: [2]string{`0.4`, `4`}, issue: "lessons[0].confidence: 4 is more than the maximum, 1",
		missing: [2]string{`"episode_id":"e1",`, ``}, gone: "episode_id",
	},
	{
		form:    "FragmentEvaluation",
		valid:   `{"novelty":0.9,"relevance":0.1,"coherence":0.3,"verdict":"stage"}`,
		outside: [2]string{`0.9`, `-0.9`}, issue: "novelty: -0.9 is less than the minimum, 0",
		unknown: [2]string{`"stage"`, `"keep"`}, missing: [2]string{`,"verdict":"stage"`, ``}, gone: "verdict",
	},
	{
		form:    "DreamIntegration",
		valid:   `{"promoted":[{"hypothesis_id":"h1","summary":"s","confidence":0.5,"rationale":"r"}],"staged":[],"discarded":[],"playbook_diff":null}`,
		outside: [2]string{`0.5`, `2`}, issue: "promoted[0].confidence: 2 is more than the maximum, 1",
		missing: [2]string{`"staged":[],`, ``}, gone: "staged",
	},
	{
		form:    "ThreatAssessment",
		valid:   `{"threat_type":"rug pull","severity":"critical","likelihood":0.05,"impact_if_realized":"all of it","mitigation_actions":["exit"],"detection_signals":[],"rehearsal_outcome":"held"}`,
		outside: [2]string{`0.05`, `5`}, issue: "likelihood: 5 is more than the maximum, 1",
		unknown: [2]string{`"critical"`, `"moderate"`}, missing: [2]string{`"likelihood":0.05,`, ``}, gone: "likelihood",
	},
	{
		form:    "CaptureResult",
		valid:   `{"captures":[{"fragment_id":"f1","summary":"s","verdict":"promote","confidence":0.6,"rationale":"r"}]}`,
		outside: [2]string{`0.6`, `60`}, issue: "captures[0].confidence: 60 is more than the maximum, 1",
		unknown: [2]string{`"promote"`, `"publish"`}, missing: [2]string{`"fragment_id":"f1",`, ``}, gone: "captures[0].fragment_id",
	},
	{
		form:    "DeathTestament",
		valid:   `{"metrics":[{"name":"pnl","value":-12.5,"unit":"USD"}],"heuristics":[{"statement":"wait","confidence":0.7}],"warnings":["bridges"]}`,
		outside: [2]string{`0.7`, `1.7`}, issue: "heuristics[0].confidence: 1.7 is more than the maximum, 1",
		missing: [2]string{`,"warnings":["bridges"]`, ``}, gone: "warnings",
	},
	{
		form: "CognitionPlan",
		valid: `{"action":"enter","confidence":0.9,"rationale":"because","parameters":{"token_in":"0x00000000000000000000000000000000000000aA","token_out":"0x00000000000000000000000000000000000000Bb",` +
			`"amount_in":"1000000000000000000","slippage_bps":50,"deadline":18446744073709551615},"risk_flags":[],"blocked_by":null}`,
		outside: [2]string{`:50,`, `:2001,`}, issue: "parameters.slippage_bps: 2001 is more than the maximum, 2000",
		unknown: [2]string{`"enter"`, `"buy"`}, missing: [2]string{`,"risk_flags":[]`, ``}, gone: "risk_flags",
	},
	{
		form:    "RiskRationale",
		valid:   `{"risk_score":0.35,"factors":[{"name":"oracle","severity":"medium","description":"stale"}],"recommendation":"reduce_size"}`,
		outside: [2]string{`0.35`, `35`}, issue: "risk_score: 35 is more than the maximum, 1",
		unknown: [2]string{`"reduce_size"`, `"reduceSize"`}, missing: [2]string{`"risk_score":0.35,`, ``}, gone: "risk_score",
	},
	{
		form:    "MemoryWriteIntent",
		valid:   `{"entry_type":"causal_link","content":"gas moves spreads","confidence":0.66,"task_class":"trade"}`,
		outside: [2]string{`0.66`, `66`}, issue: "confidence: 66 is more than the maximum, 1",
		unknown: [2]string{`"causal_link"`, `"CausalLink"`}, missing: [2]string{`,"task_class":"trade"`, ``}, gone: "task_class",
	},
}

// form returns a published form.
func form(t testing.TB, name string) *structured.Schema {
	t.Helper()
	f := structured.Published(name)
	if f == nil {
		t.Fatalf("there is no form %s", name)
	}
	return f
}

// compiled returns a caller's form.
func compiled(t testing.TB, schema string) *structured.Schema {
	t.Helper()
	f, err := structured.Compile("own", []byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
