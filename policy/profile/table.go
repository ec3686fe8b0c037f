package profile

import (
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Row has the parameters of one subsystem, before schedules, vitality and overrides.
type Row struct {
	Name    string
	Profile policy.Profile // SchemaName without a schema names the form of the answer
	Locked  bool           // nothing overrides it
	Marked  bool           // the stable prefix of its prompts is marked for the provider's cache
	Keyed   bool           // its prompts share a key in the provider's cache
	// KeepsTemperature is set where vitality does not lower the temperature.
	KeepsTemperature bool
}

// rows are the subsystems: awake, dreaming, falling asleep and waking up, dying. Of a range of temperatures they have the end that the subsystem's
// schedule starts from, or leads to.
var rows = []Row{
	{
		Name: "heartbeat_t1", Marked: true, Keyed: true,
		Profile: policy.Profile{Temperature: new(0.3), TopP: new(0.9), Effort: policy.EffortLow, SchemaName: "HeartbeatDecision"},
	},
	{
		Name: "heartbeat_t2", Marked: true, Keyed: true,
		Profile: policy.Profile{Temperature: new(0.5), TopP: new(0.95), Effort: policy.EffortHigh, SchemaName: "HeartbeatDecision"},
	},
	{
		Name: "risk", Locked: true, Marked: true, Keyed: true,
		Profile: policy.Profile{Temperature: new(0.1), TopP: new(0.85), TopK: new(40), Effort: policy.EffortMax, SchemaName: "RiskAssessment"},
	},
	{
		Name:    "daimon",
		Profile: policy.Profile{Temperature: new(0.4), TopP: new(0.9), Effort: policy.EffortLow, SchemaName: "DaimonAppraisal"},
	},
	{
		Name: "daimon_complex",
		Profile: policy.Profile{
			Temperature: new(0.6), TopP: new(0.95), Effort: policy.EffortHigh, SchemaName: "DaimonAppraisal", VisibleThinking: new(true),
		},
	},
	{
		Name: "curator", Marked: true, Keyed: true,
		Profile: policy.Profile{Temperature: new(0.3), TopP: new(0.9), Effort: policy.EffortMedium, SchemaName: "CuratorEvaluation"},
	},
	{
		Name:    "playbook", // its predicted output is the current document, which only the caller has
		Profile: policy.Profile{Temperature: new(0.4), TopP: new(0.9), Effort: policy.EffortMedium},
	},
	{
		Name: "operator", Locked: true, Marked: true, Keyed: true, KeepsTemperature: true,
		Profile: policy.Profile{Temperature: new(0.7), TopP: new(0.95), Effort: policy.EffortHigh},
	},
	{
		Name:    "mind_wandering",
		Profile: policy.Profile{Temperature: new(0.8), MinP: new(0.1), Effort: policy.EffortNone},
	},

	{
		Name: "dream_nrem", Keyed: true,
		Profile: policy.Profile{
			Temperature: new(0.4), TopP: new(0.9), Effort: policy.EffortMedium, SchemaName: "ReplayAnalysis", VisibleThinking: new(true),
		},
	},
	{
		Name: "dream_rem", Keyed: true,
		Profile: policy.Profile{Temperature: new(0.9), MinP: new(0.1), Effort: policy.EffortHigh, VisibleThinking: new(true)},
	},
	{
		Name:    "dream_rem_creative",
		Profile: policy.Profile{Temperature: new(1.2), MinP: new(0.08), Effort: policy.EffortMedium, VisibleThinking: new(true)},
	},
	{
		Name: "dream_integration",
		Profile: policy.Profile{
			Temperature: new(0.3), TopP: new(0.85), Effort: policy.EffortHigh, SchemaName: "DreamIntegration", VisibleThinking: new(true),
		},
	},
	{
		Name: "dream_threat", Keyed: true,
		Profile: policy.Profile{
			Temperature: new(0.5), TopP: new(0.9), Effort: policy.EffortHigh, SchemaName: "ThreatAssessment", VisibleThinking: new(true),
		},
	},

	{
		Name: "hypnagogic_induction", KeepsTemperature: true,
		Profile: policy.Profile{Temperature: new(1.2), MinP: new(0.1), Effort: policy.EffortNone},
	},
	{
		Name: "hypnagogic_dali", KeepsTemperature: true,
		Profile: policy.Profile{Temperature: new(1.5), MinP: new(0.08), Effort: policy.EffortNone, MaxTokens: daliTokens},
	},
	{
		Name:    "hypnagogic_observer",
		Profile: policy.Profile{Temperature: new(0.3), TopP: new(0.85), Effort: policy.EffortNone, SchemaName: "FragmentEvaluation"},
	},
	{
		Name:    "hypnagogic_capture",
		Profile: policy.Profile{Temperature: new(0.5), TopP: new(0.9), Effort: policy.EffortLow, SchemaName: "CaptureResult"},
	},
	{
		Name:    "hypnopompic_return",
		Profile: policy.Profile{Temperature: new(0.6), TopP: new(0.9), Effort: policy.EffortLow, VisibleThinking: new(true)},
	},

	{
		Name: "death_reflect", Locked: true, KeepsTemperature: true,
		Profile: policy.Profile{Temperature: new(0.5), TopP: new(0.95), Effort: policy.EffortMax, VisibleThinking: new(true)},
	},
	{
		Name: "death_testament", KeepsTemperature: true,
		Profile: policy.Profile{
			Temperature: new(0.4), TopP: new(0.9), Effort: policy.EffortHigh, SchemaName: "DeathTestament", VisibleThinking: new(true),
		},
	},
}

// daliTokens limits the fragments of a hypnagogic cycle, which are 50 to 100 tokens long.
const daliTokens = 100

// relatives maps subsystems without a row of their own to a row other than that of their intent's root (D-04).
var relatives = map[string]string{
	"death": "death_reflect", "dream": "dream_rem", "session_compact": "curator", "session": "curator", "heartbeat_t0": "",
}

// RowOf returns a subsystem's row, by its name or by its closest relative; nil if it has none.
func RowOf(subsystem string) *Row {
	if subsystem == "" {
		return nil
	}
	if r := find(subsystem); r != nil {
		return r
	}
	if name, ok := relatives[subsystem]; ok {
		return find(name)
	}
	if !intent.Known(subsystem) {
		return nil
	}
	return find(intent.Root(subsystem))
}

func find(name string) *Row { return byName[name] }

var byName = func() map[string]*Row {
	m := make(map[string]*Row, len(rows))
	for i := range rows {
		m[rows[i].Name] = &rows[i]
	}
	return m
}()

// Names returns the subsystems that have a row, in their order.
func Names() []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].Name
	}
	return out
}
