package policy

import "time"

// Hints are what a client states about itself and its request, in X-Bardo-* headers or in the body's "bardo" object. The zero value states nothing.
// Pointers are nil where zero is a meaningful value.
type Hints struct {
	GolemID   string // the agent's id
	Subsystem string // the given name, if it is known; "other" for any other name
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
	TierByDefault bool   // PrivacyTier is the operator's default, not the caller's
	Role          string // persona that the model takes on
	Pipeline      string // minimal, fast, standard, full

	Require         []Feature
	Prefer          []Feature
	Quality         Quality
	CostSensitivity *float64 // 0 to 1
	MaxLatency      time.Duration
	DIEMAvailable   bool
	DailyBudget     Micro // 0: unset
	Verify          bool
	Escalate        *bool // whether tier T2 answers if tier T1 requests it
	NoHedge         bool  // no second candidate is called if the first is slow
	NoCache         bool
	WebSearch       *bool
	TEE             *bool

	DreamCycleID   string
	DaliStep       int // 0: unset; 1-based
	DaliTotalSteps int
	DaliCycle      int
	InductionStep  int // 0: unset; 1-based
	REMCall        int // 0: unset; 1-based
	Scenario       Scenario

	CacheKey string // cache key of the prompts at the provider, set by the gateway; "": by subsystem

	Profile *Profile // parts of an inference profile

	Unknown          []string // unknown keys, to be reported
	UnknownSubsystem string   // the given name, if Subsystem is "other"; to be reported, too
}

// HaveTexts reports whether a hint has texts of the caller: an inference profile, or a scenario.
func (h *Hints) HaveTexts() bool {
	return h.Profile != nil || len(h.Scenario.Entities) > 0
}

// Scenario is the subject of a dream; it decides whether the web has to be searched.
type Scenario struct {
	Entities []Entity
	Times    []time.Time
}

// Entity is an entity of a scenario.
type Entity struct {
	Name     string
	Episodes int // number of the agent's memories of it
}
