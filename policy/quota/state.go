package quota

import (
	"encoding/json"
	"time"
)

// state is the shared value of one client: its counters, and each gateway's hold for its generations in flight. A gateway writes its own hold
// in full, so that nothing is held twice after an outage.
type state struct {
	UsedUntil [2]int64        `json:"paid"`   // by Class: see bucket.usedUntil
	RPM       [2]int          `json:"rpm"`    // the rate at that time
	Tokens    [2]int64        `json:"tokens"` // the hour, and the tokens in it
	Spent     [2]int64        `json:"spent"`  // the UTC day, and the charges on it in millionths of a dollar
	Others    int64           `json:"others"` // charges on that day by gateways that do not share
	Month     [2]int64        `json:"month"`  // the UTC month, and the charges in it
	Before    int64           `json:"before"` // charges in that month by gateways that do not share
	Asked     int64           `json:"asked"`  // when Others was read, in Unix nanoseconds; 0: never
	Latest    int64           `json:"latest"` // time of the latest request
	Holds     map[string]hold `json:"holds"`  // by gateway
}

// hold is the part of a client's limits that one gateway holds.
type hold struct {
	Active int   `json:"active"`
	Tokens int64 `json:"tokens"`
	Charge int64 `json:"charge"`
	Seq    int64 `json:"seq"`   // of the gateway's last write
	Until  int64 `json:"until"` // when the hold expires unless it is written again, in Unix milliseconds
}

func (h hold) plus(o hold) hold {
	h.Active, h.Tokens, h.Charge = h.Active+o.Active, h.Tokens+o.Tokens, h.Charge+o.Charge
	return h
}

// holdRetention is how long an expired hold is kept, so that a gateway that lost its connection can find out whether its last write arrived.
const holdRetention = time.Hour

// encodeState encodes counters without holds, and the holds of all gateways.
func encodeState(u *usage, holds map[string]hold, now time.Time) []byte {
	s := state{
		Tokens: [2]int64{u.tokens.at, u.tokens.n}, Spent: [2]int64{u.spent.at, u.spent.n}, Others: u.others,
		Month: [2]int64{u.month.at, u.month.n}, Before: u.othersMonth,
		Holds: make(map[string]hold, len(holds)),
	}
	for c, b := range u.rates {
		s.UsedUntil[c], s.RPM[c] = b.usedUntil, b.rpm
	}
	if !u.latest.IsZero() {
		s.Latest = u.latest.UnixNano()
	}
	if u.loaded {
		s.Asked = u.othersReadAt.UnixNano()
	}
	for who, h := range holds {
		if now.UnixMilli()-h.Until < holdRetention.Milliseconds() {
			s.Holds[who] = h
		}
	}
	out, _ := json.Marshal(&s) // cannot fail
	return out
}

// decodeState decodes the form of encodeState.
func decodeState(raw []byte) (u usage, holds map[string]hold, err error) {
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return usage{}, nil, err
	}
	u = usage{
		tokens: window{s.Tokens[0], s.Tokens[1]}, spent: window{s.Spent[0], s.Spent[1]}, others: s.Others,
		month: window{s.Month[0], s.Month[1]}, othersMonth: s.Before,
		loaded: s.Asked != 0, othersReadAt: time.Unix(0, s.Asked),
	}
	if s.Latest != 0 {
		u.latest = time.Unix(0, s.Latest)
	}
	for c := range u.rates {
		u.rates[c] = bucket{usedUntil: s.UsedUntil[c], rpm: s.RPM[c]}
	}
	return u, s.Holds, nil
}

// later is the later of two counts, or the greater one of the same period: counts only grow, so that a smaller one is incomplete.
func later(a, b window) window {
	if a.at > b.at || a.at == b.at && a.n > b.n {
		return a
	}
	return b
}

// add adds another count, unless its period is over.
func (w *window) add(o window) {
	if o.n == 0 || o.at < w.at-1 {
		return
	}
	w.roll(o.at)
	w.n = min(w.n+o.n, maxSum)
}

// subtract subtracts a count of the same period.
func (w *window) subtract(o window) {
	if w.at == o.at {
		w.n -= o.n
	}
}
