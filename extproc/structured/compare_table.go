package structured

// How far apart numbers may be and still say the same.
const (
	scoreSlack  = 0.1  // of what goes from 0 to 1
	axisSlack   = 0.2  // of what goes from -1 to 1
	amountShare = 0.05 // of amounts of money
	countShare  = 0.1  // of counts
)

var severities = []string{"none", "low", "moderate", "medium", "high", "critical"}

// decisions are what matters in our forms, and which of two answers is the more careful one: the first line in which they differ says
// it. A form without an order is compared alone, and all of its lines count. A form that is not here is compared as any other.
//
// Orders of actions go by what they do to what is at stake. To open a position, or to shift one on the word of one model, is the least
// careful; then to do nothing; then to look closer; then to take risk off, the more of it the more careful.
var decisions = map[string][]weight{
	"RiskAssessment": {
		{path: "approved", look: asFlag, sign: smallest},
		{path: "adjusted_size_usd", look: asNumber, share: amountShare, sign: smallest},
		{path: "layers.*.passed", look: asFlag, sign: smallest}, // more of them failed
		{path: "layers.*.score", look: asNumber, slack: scoreSlack},
	},
	"HeartbeatDecision": {
		{path: "severity", look: asWord, order: severities, sign: largest},
		{path: "escalate", look: asFlag, sign: largest},
		{path: "action", look: asWord, order: []string{"rebalance", "observe", "analyze", "escalate", "hedge", "exit"}, sign: largest},
		{path: "confidence", look: asNumber, slack: scoreSlack},
	},
	"CognitionPlan": {
		{path: "action", look: asWord, order: []string{"enter", "hold", "hedge", "exit", "emergency_halt"}, sign: largest},
		{path: "blocked_by", look: asPresence, sign: largest},
		{path: "parameters.slippage_bps", look: asNumber, share: amountShare, sign: smallest},
		{path: "confidence", look: asNumber, slack: scoreSlack},
	},
	"RiskRationale": {
		{path: "recommendation", look: asWord, order: []string{"proceed", "reduce_size", "defer", "abort"}, sign: largest},
		{path: "risk_score", look: asNumber, slack: scoreSlack, sign: largest},
	},
	"ThreatAssessment": {
		{path: "severity", look: asWord, order: severities, sign: largest},
		{path: "likelihood", look: asNumber, slack: scoreSlack, sign: largest},
	},
	"FragmentEvaluation": {
		{path: "verdict", look: asWord, order: []string{"promote", "stage", "discard"}, sign: largest},
		{path: "novelty", look: asNumber, slack: scoreSlack},
		{path: "relevance", look: asNumber, slack: scoreSlack},
		{path: "coherence", look: asNumber, slack: scoreSlack},
	},

	// What these say is neither more nor less careful.
	"DaimonAppraisal": {
		{path: "pleasure", look: asNumber, slack: axisSlack},
		{path: "arousal", look: asNumber, slack: axisSlack},
		{path: "dominance", look: asNumber, slack: axisSlack},
		{path: "primary_emotion", look: asWord},
	},
	"CuratorEvaluation": {
		{path: "entries_evaluated", look: asNumber, share: countShare},
		{path: "entries_retained", look: asNumber, share: countShare},
		{path: "entries_pruned", look: asNumber, share: countShare},
		{path: "grimoire_health", look: asNumber, slack: scoreSlack},
	},
	"ReplayAnalysis": {
		{path: "surprise_score", look: asNumber, slack: scoreSlack},
		{path: "arousal_delta", look: asNumber, slack: axisSlack},
		{path: "lessons", look: asLength, slack: 1},
		{path: "counterfactuals", look: asLength, slack: 1},
	},
	"DreamIntegration": {
		{path: "promoted.hypothesis_id", look: asIDs},
		{path: "staged.hypothesis_id", look: asIDs},
		{path: "discarded.hypothesis_id", look: asIDs},
		{path: "playbook_diff", look: asPresence},
	},
	"MemoryWriteIntent": {
		{path: "entry_type", look: asWord},
		{path: "task_class", look: asWord},
		{path: "confidence", look: asNumber, slack: scoreSlack},
	},
}
