package schema

import (
	"embed"
	"encoding/json"
	"slices"
	"sync"
)

//go:embed json
var files embed.FS

// Schema is one published schema.
type Schema struct {
	Name       string
	Subsystems []string        // that use it by default
	JSON       json.RawMessage // its JSON Schema, draft 2020-12
	Default    json.RawMessage // the default answer; nil: none
	Strict     bool            // an invalid answer is an error: no repair, no validation retry, no default
}

// entry is a listed schema. fallback returns its default answer; nil for none.
type entry struct {
	name       string
	subsystems []string
	fallback   func() any
	strict     bool
}

var entries = []entry{
	{name: "HeartbeatDecision", subsystems: []string{"heartbeat_t1", "heartbeat_t2"}, fallback: func() any { return DefaultHeartbeatDecision() }},
	{name: "DaimonAppraisal", subsystems: []string{"daimon", "daimon_complex"}, fallback: func() any { return DefaultDaimonAppraisal() }},
	{name: "RiskAssessment", subsystems: []string{"risk"}, fallback: func() any { return DefaultRiskAssessment() }},
	{name: "CuratorEvaluation", subsystems: []string{"curator"}, fallback: func() any { return DefaultCuratorEvaluation() }},
	{name: "ReplayAnalysis", subsystems: []string{"dream_nrem"}, fallback: func() any { return DefaultReplayAnalysis() }},
	{name: "FragmentEvaluation", subsystems: []string{"hypnagogic_observer"}, fallback: func() any { return DefaultFragmentEvaluation() }},
	{name: "DreamIntegration", subsystems: []string{"dream_integration"}, fallback: func() any { return DefaultDreamIntegration() }},
	{name: "ThreatAssessment", subsystems: []string{"dream_threat"}, fallback: func() any { return DefaultThreatAssessment() }},
	{name: "CaptureResult", subsystems: []string{"hypnagogic_capture"}},
	{name: "DeathTestament", subsystems: []string{"death_testament"}},
	{name: "CognitionPlan", strict: true},
	{name: "RiskRationale", strict: true},
	{name: "MemoryWriteIntent", strict: true},
}

// published reads the schemas once.
var published = sync.OnceValues(func() ([]Schema, error) {
	list := make([]Schema, 0, len(entries))
	for _, e := range entries {
		b, err := files.ReadFile("json/" + e.name + ".json")
		if err != nil {
			return nil, err
		}
		s := Schema{Name: e.name, Subsystems: e.subsystems, JSON: b, Strict: e.strict}
		if e.fallback != nil {
			if s.Default, err = json.Marshal(e.fallback()); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
})

// All lists the schemas. The list and its elements are read-only. Safe for concurrent use.
func All() []Schema {
	list, _ := published() // the files are embedded, and a test reads them
	return list
}

// Get is the schema of a name. Safe for concurrent use.
func Get(name string) (s Schema, ok bool) {
	i := slices.IndexFunc(All(), func(s Schema) bool { return s.Name == name })
	if i < 0 {
		return Schema{}, false
	}
	return All()[i], true
}

// Names are the names of the schemas, in order.
func Names() []string {
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}
