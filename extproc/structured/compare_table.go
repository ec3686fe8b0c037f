package structured

// Tolerances within which two numbers agree.
const (
	scoreTolerance  = 0.1  // of scores from 0 to 1
	axisTolerance   = 0.2  // of axes from -1 to 1
	amountTolerance = 0.05 // relative, of amounts of money
	countTolerance  = 0.1  // relative, of counts
)

var severities = []string{"none", "low", "moderate", "medium", "high", "critical"}

// decisions are the criteria of built-in schemas, in order: the first one in which two answers differ decides which is the more careful one.
// A schema whose criteria have no order is only compared, and all of them count. Schemas that are not listed are compared as any other.
//
// Actions are ordered by their effect on risk: opening or shifting a position is the least careful, then doing nothing, then looking closer,
// then reducing risk, the more the more careful.
var decisions = map[string][]criterion{
	"RiskAssessment": {
		{path: "approved", as: asFlag, stricterIs: smallest},
		{path: "adjusted_size_usd", as: asNumber, relTolerance: amountTolerance, stricterIs: smallest},
		{path: "layers.*.passed", as: asFlag, stricterIs: smallest}, // fewer layers passed
		{path: "layers.*.score", as: asNumber, tolerance: scoreTolerance},
	},
	"HeartbeatDecision": {
		{path: "severity", as: asWord, order: severities, stricterIs: largest},
		{path: "escalate", as: asFlag, stricterIs: largest},
		{path: "action", as: asWord, order: []string{"rebalance", "observe", "analyze", "escalate", "hedge", "exit"}, stricterIs: largest},
		{path: "confidence", as: asNumber, tolerance: scoreTolerance},
	},
	"CognitionPlan": {
		{path: "action", as: asWord, order: []string{"enter", "hold", "hedge", "exit", "emergency_halt"}, stricterIs: largest},
		{path: "blocked_by", as: asPresence, stricterIs: largest},
		{path: "parameters.slippage_bps", as: asNumber, relTolerance: amountTolerance, stricterIs: smallest},
		{path: "confidence", as: asNumber, tolerance: scoreTolerance},
	},
	"RiskRationale": {
		{path: "recommendation", as: asWord, order: []string{"proceed", "reduce_size", "defer", "abort"}, stricterIs: largest},
		{path: "risk_score", as: asNumber, tolerance: scoreTolerance, stricterIs: largest},
	},
	"ThreatAssessment": {
		{path: "severity", as: asWord, order: severities, stricterIs: largest},
		{path: "likelihood", as: asNumber, tolerance: scoreTolerance, stricterIs: largest},
	},
	"FragmentEvaluation": {
		{path: "verdict", as: asWord, order: []string{"promote", "stage", "discard"}, stricterIs: largest},
		{path: "novelty", as: asNumber, tolerance: scoreTolerance},
		{path: "relevance", as: asNumber, tolerance: scoreTolerance},
		{path: "coherence", as: asNumber, tolerance: scoreTolerance},
	},

	// Answers of these schemas are neither more nor less careful.
	"DaimonAppraisal": {
		{path: "pleasure", as: asNumber, tolerance: axisTolerance},
		{path: "arousal", as: asNumber, tolerance: axisTolerance},
		{path: "dominance", as: asNumber, tolerance: axisTolerance},
		{path: "primary_emotion", as: asWord},
	},
	"CuratorEvaluation": {
		{path: "entries_evaluated", as: asNumber, relTolerance: countTolerance},
		{path: "entries_retained", as: asNumber, relTolerance: countTolerance},
		{path: "entries_pruned", as: asNumber, relTolerance: countTolerance},
		{path: "grimoire_health", as: asNumber, tolerance: scoreTolerance},
	},
	"ReplayAnalysis": {
		{path: "surprise_score", as: asNumber, tolerance: scoreTolerance},
		{path: "arousal_delta", as: asNumber, tolerance: axisTolerance},
		{path: "lessons", as: asLength, tolerance: 1},
		{path: "counterfactuals", as: asLength, tolerance: 1},
	},
	"DreamIntegration": {
		{path: "promoted.hypothesis_id", as: asIDs},
		{path: "staged.hypothesis_id", as: asIDs},
		{path: "discarded.hypothesis_id", as: asIDs},
		{path: "playbook_diff", as: asPresence},
	},
	"MemoryWriteIntent": {
		{path: "entry_type", as: asWord},
		{path: "task_class", as: asWord},
		{path: "confidence", as: asNumber, tolerance: scoreTolerance},
	},
}
