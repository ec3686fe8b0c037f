package control

import (
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
)

// The lines of a watcher's stream, one JSON object each. Each has its type.
const (
	LineGateway = "gateway"
	LineRequest = "request"
	LineStatus  = "status"
)

// GatewayLine is the first line: who is watched.
type GatewayLine struct {
	Type    string    `json:"type"`
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Home    string    `json:"home"`
	Started time.Time `json:"started_at"`
}

// RequestLine is a request that ended.
type RequestLine struct {
	Type string `json:"type"`
	record.Finished
}

// StatusLine is the gateway as a whole, once a second.
type StatusLine struct {
	Type          string       `json:"type"`
	At            time.Time    `json:"at"`
	Draining      bool         `json:"draining"`
	Live          int64        `json:"under_way"`
	Served        uint64       `json:"served"` // requests with a body since the gateway's start
	RequestsToday int64        `json:"requests_today"`
	CostToday     policy.Micro `json:"cost_today_usd"`
	ProviderToday policy.Pico  `json:"provider_cost_today_usd"`
	Holds         int          `json:"holds"`
	Held          policy.Micro `json:"held_usd"`
	Providers     []Provider   `json:"providers"`
	Lost          uint64       `json:"lost"` // request lines that this watcher was too slow for
}
