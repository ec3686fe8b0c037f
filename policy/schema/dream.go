package schema

// ReplayAnalysis is what a dream learns from replaying an episode.
type ReplayAnalysis struct {
	EpisodeID       string           `json:"episode_id"`
	Lessons         []Lesson         `json:"lessons"`
	SurpriseScore   float64          `json:"surprise_score"` // 0 to 1
	Counterfactuals []Counterfactual `json:"counterfactuals"`
	ArousalDelta    float64          `json:"arousal_delta"` // -2 to 2, the difference of two arousals
}

// Lesson is an insight, and when it holds.
type Lesson struct {
	Insight              string  `json:"insight"`
	Confidence           float64 `json:"confidence"` // 0 to 1
	ApplicableConditions string  `json:"applicable_conditions"`
}

// Counterfactual is the likely outcome of another action.
type Counterfactual struct {
	AlternativeAction string  `json:"alternative_action"`
	EstimatedOutcome  string  `json:"estimated_outcome"`
	Plausibility      float64 `json:"plausibility"` // 0 to 1
}

// FragmentEvaluation rates a fragment of hypnagogic thought. Its scores are 0 to 1.
type FragmentEvaluation struct {
	Novelty   float64 `json:"novelty"`
	Relevance float64 `json:"relevance"`
	Coherence float64 `json:"coherence"`
	Verdict   Fate    `json:"verdict"`
}

// Fate is what is done with a fragment.
type Fate string

// The fates.
const (
	Promote Fate = "promote"
	Stage   Fate = "stage"
	Discard Fate = "discard"
)

// DreamIntegration decides which hypotheses of a dream are kept, deferred, or dropped.
type DreamIntegration struct {
	Promoted     []IntegrationItem `json:"promoted"`
	Staged       []IntegrationItem `json:"staged"`
	Discarded    []IntegrationItem `json:"discarded"`
	PlaybookDiff *string           `json:"playbook_diff,omitempty"`
}

// IntegrationItem is the decision on one hypothesis.
type IntegrationItem struct {
	HypothesisID string  `json:"hypothesis_id"`
	Summary      string  `json:"summary"`
	Confidence   float64 `json:"confidence"` // 0 to 1
	Rationale    string  `json:"rationale"`
}

// ThreatAssessment is a threat that was rehearsed in a dream.
type ThreatAssessment struct {
	ThreatType        string   `json:"threat_type"`
	Severity          Severity `json:"severity"`
	Likelihood        float64  `json:"likelihood"` // 0 to 1
	ImpactIfRealized  string   `json:"impact_if_realized"`
	MitigationActions []string `json:"mitigation_actions"`
	DetectionSignals  []string `json:"detection_signals"`
	RehearsalOutcome  string   `json:"rehearsal_outcome"`
}

// CaptureResult are the decisions on the fragments of a lucid capture.
type CaptureResult struct {
	Captures []Capture `json:"captures"`
}

// Capture is the decision on one fragment.
type Capture struct {
	FragmentID string  `json:"fragment_id"`
	Summary    string  `json:"summary"`
	Verdict    Fate    `json:"verdict"`
	Confidence float64 `json:"confidence"` // 0 to 1
	Rationale  string  `json:"rationale"`
}
