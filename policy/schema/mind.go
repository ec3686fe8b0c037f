package schema

// HeartbeatDecision is what a heartbeat of tier T1 or T2 concludes from what it observed.
type HeartbeatDecision struct {
	Severity   HeartbeatSeverity `json:"severity"`
	Action     HeartbeatAction   `json:"action"`
	Confidence float64           `json:"confidence"` // 0 to 1
	Rationale  string            `json:"rationale"`  // one or two sentences
	Signals    []Signal          `json:"signals"`    // what drove the decision
	Escalate   bool              `json:"escalate"`   // a higher tier should decide
}

// Signal is one observation behind a decision.
type Signal struct {
	Source      SignalSource `json:"source"`
	Description string       `json:"description"`
	Magnitude   float64      `json:"magnitude"` // 0 to 1
}

// HeartbeatSeverity is how severe a situation is.
type HeartbeatSeverity string

// The severities of a heartbeat.
const (
	SeverityNone     HeartbeatSeverity = "none"
	SeverityLow      HeartbeatSeverity = "low"
	SeverityModerate HeartbeatSeverity = "moderate"
	SeverityHigh     HeartbeatSeverity = "high"
	SeverityCritical HeartbeatSeverity = "critical"
)

// HeartbeatAction is what a heartbeat recommends.
type HeartbeatAction string

// The actions of a heartbeat.
const (
	ActionObserve   HeartbeatAction = "observe"
	ActionAnalyze   HeartbeatAction = "analyze"
	ActionRebalance HeartbeatAction = "rebalance"
	ActionHedge     HeartbeatAction = "hedge"
	ActionExit      HeartbeatAction = "exit"
	ActionEscalate  HeartbeatAction = "escalate"
)

// SignalSource is where a signal comes from.
type SignalSource string

// The sources of signals.
const (
	SourcePrice      SignalSource = "price"
	SourceVolume     SignalSource = "volume"
	SourceGovernance SignalSource = "governance"
	SourceLiquidity  SignalSource = "liquidity"
)

// DaimonAppraisal is how an event feels.
type DaimonAppraisal struct {
	Pleasure         float64 `json:"pleasure"`  // -1 to 1
	Arousal          float64 `json:"arousal"`   // -1 to 1
	Dominance        float64 `json:"dominance"` // -1 to 1
	PrimaryEmotion   Emotion `json:"primary_emotion"`
	SecondaryEmotion *string `json:"secondary_emotion,omitempty"` // of a blended state
	Trigger          string  `json:"trigger"`
	MemoryBias       string  `json:"memory_bias"` // how to bias the retrieval of memories
}

// Emotion is one of Plutchik's primary emotions.
type Emotion string

// The primary emotions.
const (
	Joy          Emotion = "joy"
	Trust        Emotion = "trust"
	Fear         Emotion = "fear"
	Surprise     Emotion = "surprise"
	Sadness      Emotion = "sadness"
	Disgust      Emotion = "disgust"
	Anger        Emotion = "anger"
	Anticipation Emotion = "anticipation"
)

// CuratorEvaluation is what a curator did with the entries of the Grimoire.
type CuratorEvaluation struct {
	EntriesEvaluated uint32      `json:"entries_evaluated"`
	EntriesRetained  uint32      `json:"entries_retained"`
	EntriesPruned    uint32      `json:"entries_pruned"`
	CrossReferences  []CrossRef  `json:"cross_references"`
	Promotions       []Promotion `json:"promotions"`
	GrimoireHealth   float64     `json:"grimoire_health"` // 0 to 1
}

// CrossRef ties one entry to another.
type CrossRef struct {
	SourceID     string       `json:"source_id"`
	TargetID     string       `json:"target_id"`
	Relationship Relationship `json:"relationship"`
}

// Relationship is how one entry bears on another.
type Relationship string

// The relationships of entries.
const (
	Supports    Relationship = "supports"
	Contradicts Relationship = "contradicts"
	Extends     Relationship = "extends"
)

// Promotion raises the confidence in an entry.
type Promotion struct {
	EntryID        string  `json:"entry_id"`
	FromConfidence float64 `json:"from_confidence"` // 0 to 1
	ToConfidence   float64 `json:"to_confidence"`   // 0 to 1
	Reason         string  `json:"reason"`
}

// DeathTestament is the machine-readable part of a testament. Its free part is Reflection, and members that are not listed here.
type DeathTestament struct {
	Metrics    []TestamentMetric    `json:"metrics"`
	Heuristics []TestamentHeuristic `json:"heuristics"`
	Warnings   []string             `json:"warnings"`
	Reflection *string              `json:"reflection,omitempty"`
}

// TestamentMetric is something that was measured in a life.
type TestamentMetric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  *string `json:"unit,omitempty"`
}

// TestamentHeuristic is something that was learnt in a life.
type TestamentHeuristic struct {
	Statement  string  `json:"statement"`
	Confidence float64 `json:"confidence"` // 0 to 1
}
