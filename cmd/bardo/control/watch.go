package control

import (
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
)

// The types of lines in a watcher's stream. Each line is a JSON object.
const (
	LineGateway = "gateway"
	LineRequest = "request"
	LineStatus  = "status"
)

// GatewayLine is the first line: the gateway that is watched.
type GatewayLine struct {
	Type    string    `json:"type"`
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Home    string    `json:"home"`
	Started time.Time `json:"started_at"`
}

// RequestLine is a finished request.
type RequestLine struct {
	Type string `json:"type"`
	record.Finished
}

// StatusLine is the state of the gateway, once a second.
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
	Lost          uint64       `json:"lost"` // request lines dropped because this watcher is slow
}
