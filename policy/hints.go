package policy

import "time"

// Hints are what a caller says about itself and about its request, in X-Bardo-* headers or in the body's "bardo" object. The zero
// value says nothing. Pointers are nil where a value of zero means something.
type Hints struct {
	GolemID   string // the agent's id
	Subsystem string // as it was named, if it is one that is known; "other" for any other name
	SessionID string
	Surface   string // where the answer is shown: api, tui, telegram, discord, web

	Tick          int64
	TickType      string
	Vitality      *float64 // remaining lifespan, 0 to 1
	Phase         Phase
	Regime        string
	TaskClass     string
	SecurityClass SecurityClass
	PrivacyTier   PrivacyTier
	TierByDefault bool   // PrivacyTier is the operator's, not the caller's
	Role          string // whose manner the model takes on
	Pipeline      string // minimal, fast, standard, full

	Require         []Feature
	Prefer          []Feature
	Quality         Quality
	CostSensitivity *float64 // 0 to 1
	MaxLatency      time.Duration
	DIEMAvailable   bool
	DailyBudget     Micro // 0: not said
	Verify          bool
	Escalate        *bool // whether tier T2 answers where tier T1 asks for it
	NoCache         bool
	WebSearch       *bool
	TEE             *bool

	DreamCycleID   string
	DaliStep       int // 0: not said; 1-based
	DaliTotalSteps int
	DaliCycle      int
	InductionStep  int // 0: not said; 1-based
	REMCall        int // 0: not said; 1-based
	Scenario       Scenario

	CacheKey string // of the prompts in the provider's cache, as the gateway coordinates them; "": by subsystem

	Profile *Profile // parts of an inference profile

	Unknown          []string // keys that mean nothing to this version, to be reported
	UnknownSubsystem string   // the name that was given, where Subsystem is "other" for it; to be reported too
}

// Scenario is what a dream imagines: whether the web has to be searched depends on it.
type Scenario struct {
	Entities []Entity
	Times    []time.Time
}

// Entity is something that a scenario is about.
type Entity struct {
	Name     string
	Episodes int // how many memories the agent has of it
}
