package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/policy/schema"
)

// forms are the types behind the names.
var forms = map[string]any{
	"HeartbeatDecision":  schema.HeartbeatDecision{},
	"DaimonAppraisal":    schema.DaimonAppraisal{},
	"RiskAssessment":     schema.RiskAssessment{},
	"CuratorEvaluation":  schema.CuratorEvaluation{},
	"ReplayAnalysis":     schema.ReplayAnalysis{},
	"FragmentEvaluation": schema.FragmentEvaluation{},
	"DreamIntegration":   schema.DreamIntegration{},
	"ThreatAssessment":   schema.ThreatAssessment{},
	"CaptureResult":      schema.CaptureResult{},
	"DeathTestament":     schema.DeathTestament{},
	"CognitionPlan":      schema.CognitionPlan{},
	"RiskRationale":      schema.RiskRationale{},
	"MemoryWriteIntent":  schema.MemoryWriteIntent{},
}

// values are the closed sets.
var values = map[reflect.Type][]string{
	reflect.TypeFor[schema.HeartbeatSeverity]():  strs(schema.SeverityNone, schema.SeverityLow, schema.SeverityModerate, schema.SeverityHigh, schema.SeverityCritical),
	reflect.TypeFor[schema.HeartbeatAction]():    strs(schema.ActionObserve, schema.ActionAnalyze, schema.ActionRebalance, schema.ActionHedge, schema.ActionExit, schema.ActionEscalate),
	reflect.TypeFor[schema.SignalSource]():       strs(schema.SourcePrice, schema.SourceVolume, schema.SourceGovernance, schema.SourceLiquidity),
	reflect.TypeFor[schema.Emotion]():            strs(schema.Joy, schema.Trust, schema.Fear, schema.Surprise, schema.Sadness, schema.Disgust, schema.Anger, schema.Anticipation),
	reflect.TypeFor[schema.Relationship]():       strs(schema.Supports, schema.Contradicts, schema.Extends),
	reflect.TypeFor[schema.Fate]():               strs(schema.Promote, schema.Stage, schema.Discard),
	reflect.TypeFor[schema.Severity]():           strs(schema.Low, schema.Medium, schema.High, schema.Critical),
	reflect.TypeFor[schema.CognitionAction]():    strs(schema.Enter, schema.Exit, schema.Hold, schema.Hedge, schema.EmergencyHalt),
	reflect.TypeFor[schema.RiskRecommendation](): strs(schema.Proceed, schema.ReduceSize, schema.Defer, schema.Abort),
	reflect.TypeFor[schema.MemoryEntryType]():    strs(schema.Insight, schema.Heuristic, schema.Warning, schema.CausalLink),
}

func strs[S ~string](list ...S) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// node is the part of JSON Schema that these schemas use.
type node struct {
	Title                string          `json:"title"`
	Type                 json.RawMessage `json:"type"`
	Properties           map[string]node `json:"properties"`
	Required             []string        `json:"required"`
	Items                *node           `json:"items"`
	Enum                 []string        `json:"enum"`
	AnyOf                []node          `json:"anyOf"`
	AdditionalProperties *bool           `json:"additionalProperties"`
	Minimum              *json.Number    `json:"minimum"`
	Maximum              *json.Number    `json:"maximum"`
}

// types are the names at a schema's type.
func (n *node) types(t *testing.T) []string {
	t.Helper()
	var one string
	if json.Unmarshal(n.Type, &one) == nil {
		return []string{one}
	}
	var list []string
	if err := json.Unmarshal(n.Type, &list); err != nil {
		t.Fatalf("type %s: %v", n.Type, err)
	}
	return list
}

func TestEachSchemaSaysWhatItsTypeSays(t *testing.T) {
	if got := schema.Names(); len(got) != len(forms) || len(schema.All()) != len(forms) {
		t.Fatalf("there are %d names and %d schemas of %d types", len(got), len(schema.All()), len(forms))
	}
	for _, s := range schema.All() {
		t.Run(s.Name, func(t *testing.T) {
			form, known := forms[s.Name]
			if !known {
				t.Fatal("it has no type here")
			}
			var n node
			d := json.NewDecoder(bytes.NewReader(s.JSON))
			if err := d.Decode(&n); err != nil {
				t.Fatal(err)
			}
			if n.Title != s.Name {
				t.Errorf("its title is %q", n.Title)
			}
			agree(t, s.Name, reflect.TypeOf(form), &n)
		})
	}
}

// agree compares a schema with a type, field by field.
func agree(t *testing.T, at string, typ reflect.Type, n *node) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		n = nullable(t, at, n)
		typ = typ.Elem()
	} else if got := n.types(t); len(got) != 1 {
		t.Errorf("%s may be one of %v, and its field cannot", at, got)
	}
	if got := n.types(t); !slices.Contains(got, kindOf(typ)) {
		t.Fatalf("%s is %v, and its field %v", at, got, typ)
	}
	switch typ.Kind() {
	case reflect.Struct:
		members(t, at, typ, n)
	case reflect.Slice:
		agree(t, at+"[]", typ.Elem(), n.Items)
	case reflect.String:
		if want := values[typ]; !slices.Equal(n.Enum, want) {
			t.Errorf("%s is one of %v, and its type of %v", at, n.Enum, want)
		}
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n.Minimum == nil || *n.Minimum != "0" || n.Maximum == nil {
			t.Errorf("%s has no bounds, and its field has", at)
		}
	default:
	}
}

// kindOf is how JSON Schema names a kind of field.
func kindOf(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	default:
		return typ.Kind().String()
	}
}

// nullable returns the schema of the non-null value of one that allows null.
func nullable(t *testing.T, at string, n *node) *node {
	t.Helper()
	for i := range n.AnyOf {
		if !slices.Contains(n.AnyOf[i].types(t), "null") {
			return &n.AnyOf[i]
		}
	}
	if got := n.types(t); len(got) != 2 || got[1] != "null" {
		t.Errorf("%s is of %v, and its field may be nil", at, got)
	}
	return n
}

func members(t *testing.T, at string, typ reflect.Type, n *node) {
	t.Helper()
	if open := at == "DeathTestament"; n.AdditionalProperties == nil || *n.AdditionalProperties != open {
		t.Errorf("%s is open or closed as it should not be", at)
	}
	if len(n.Properties) != typ.NumField() {
		t.Errorf("%s has %d members, and its type %d", at, len(n.Properties), typ.NumField())
	}
	required := 0
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		member, known := n.Properties[name]
		if !known {
			t.Errorf("%s has no member %s", at, name)
			continue
		}
		optional := field.Type.Kind() == reflect.Pointer
		if optional != (options == "omitempty") || optional == slices.Contains(n.Required, name) {
			t.Errorf("%s.%s: optional %t, omitempty %q, required %t", at, name, optional, options, slices.Contains(n.Required, name))
		}
		if !optional {
			required++
		}
		agree(t, at+"."+name, field.Type, &member)
	}
	if required != len(n.Required) {
		t.Errorf("%s requires %v", at, n.Required)
	}
}

func TestDefaultsDoNothing(t *testing.T) {
	for name, want := range map[string]string{
		"HeartbeatDecision":  `{"severity":"moderate","action":"observe","confidence":0,"rationale":"No valid answer could be had from a model.","signals":[],"escalate":true}`,
		"DaimonAppraisal":    `{"pleasure":0,"arousal":0,"dominance":0,"primary_emotion":"anticipation","trigger":"No valid answer could be had from a model.","memory_bias":"none"}`,
		"RiskAssessment":     `{"approved":false,"adjusted_size_usd":0,"layers":{"hard_shields":{"passed":false,"score":0,"detail":"not evaluated"},"position_sizing":{"passed":false,"score":0,"detail":"not evaluated"},"adaptive_guardrails":{"passed":false,"score":0,"detail":"not evaluated"},"observation":{"passed":false,"score":0,"detail":"not evaluated"},"defi_threats":{"passed":false,"score":0,"detail":"not evaluated"}},"warnings":["No valid answer could be had from a model."]}`,
		"CuratorEvaluation":  `{"entries_evaluated":0,"entries_retained":0,"entries_pruned":0,"cross_references":[],"promotions":[],"grimoire_health":0.5}`,
		"ReplayAnalysis":     `{"episode_id":"","lessons":[],"surprise_score":0,"counterfactuals":[],"arousal_delta":0}`,
		"FragmentEvaluation": `{"novelty":0,"relevance":0,"coherence":0,"verdict":"discard"}`,
		"DreamIntegration":   `{"promoted":[],"staged":[],"discarded":[]}`,
		"ThreatAssessment":   `{"threat_type":"unknown","severity":"medium","likelihood":0,"impact_if_realized":"unknown","mitigation_actions":[],"detection_signals":[],"rehearsal_outcome":"No valid answer could be had from a model."}`,
		"CaptureResult":      "",
		"DeathTestament":     "",
		"CognitionPlan":      "",
		"RiskRationale":      "",
		"MemoryWriteIntent":  "",
	} {
		s, ok := schema.Get(name)
		if !ok || string(s.Default) != want {
			t.Errorf("%s: %t, %s", name, ok, s.Default)
		}
		if strict := slices.Contains([]string{"CognitionPlan", "RiskRationale", "MemoryWriteIntent"}, name); s.Strict != strict {
			t.Errorf("%s: strict %t", name, s.Strict)
		}
	}
	if _, ok := schema.Get("heartbeatdecision"); ok {
		t.Error("names are told apart by their case")
	}
}

func TestEveryFileIsPublished(t *testing.T) {
	files, err := os.ReadDir("json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := schema.Get(strings.TrimSuffix(f.Name(), ".json")); !ok {
			t.Errorf("%s is not listed", f.Name())
		}
	}
}
