package schema

// Default answers, for requests without a valid answer from a model. Each is neutral and without effect: it approves, promotes, prunes and moves
// nothing.

// noAnswer is the explanation in default answers.
const noAnswer = "No valid answer could be had from a model."

// DefaultHeartbeatDecision observes, with no confidence, and leaves the decision to a higher tier.
func DefaultHeartbeatDecision() HeartbeatDecision {
	return HeartbeatDecision{Severity: SeverityModerate, Action: ActionObserve, Rationale: noAnswer, Signals: []Signal{}, Escalate: true}
}

// DefaultDaimonAppraisal is neutral, and biases no memory.
func DefaultDaimonAppraisal() DaimonAppraisal {
	return DaimonAppraisal{PrimaryEmotion: Anticipation, Trigger: noAnswer, MemoryBias: "none"}
}

// DefaultRiskAssessment approves nothing: no layer was passed, and the size is 0.
func DefaultRiskAssessment() RiskAssessment {
	unknown := LayerResult{Detail: "not evaluated"}
	return RiskAssessment{
		Layers: RiskLayers{
			HardShields: unknown, PositionSizing: unknown, AdaptiveGuardrails: unknown, Observation: unknown, DefiThreats: unknown,
		},
		Warnings: []string{noAnswer},
	}
}

// DefaultCuratorEvaluation changes no entry, and rates the Grimoire's health at the middle.
func DefaultCuratorEvaluation() CuratorEvaluation {
	return CuratorEvaluation{CrossReferences: []CrossRef{}, Promotions: []Promotion{}, GrimoireHealth: 0.5}
}

// DefaultReplayAnalysis has no lessons, and names no episode.
func DefaultReplayAnalysis() ReplayAnalysis {
	return ReplayAnalysis{Lessons: []Lesson{}, Counterfactuals: []Counterfactual{}}
}

// DefaultFragmentEvaluation discards the fragment: nothing enters memory unseen.
func DefaultFragmentEvaluation() FragmentEvaluation {
	return FragmentEvaluation{Verdict: Discard}
}

// DefaultDreamIntegration decides on no hypothesis, and leaves the playbook as it is.
func DefaultDreamIntegration() DreamIntegration {
	return DreamIntegration{Promoted: []IntegrationItem{}, Staged: []IntegrationItem{}, Discarded: []IntegrationItem{}}
}

// DefaultThreatAssessment is an unassessed threat: neither harmless nor a reason to act.
func DefaultThreatAssessment() ThreatAssessment {
	return ThreatAssessment{
		ThreatType: "unknown", Severity: Medium, ImpactIfRealized: "unknown", MitigationActions: []string{}, DetectionSignals: []string{},
		RehearsalOutcome: noAnswer,
	}
}
