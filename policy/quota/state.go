package quota

import (
	"encoding/json"
	"time"
)

// state is what gateways share of one client: its counters, and what each gateway holds for the generations that it has in flight. A gateway writes its own hold
// in full, so that nothing is held twice after an outage.
type state struct {
	Paid   [2]int64        `json:"paid"`   // by Class: until when the rate is used up, in Unix nanoseconds
	RPM    [2]int          `json:"rpm"`    // the rate at that time
	Tokens [2]int64        `json:"tokens"` // the hour, and the tokens in it
	Spent  [2]int64        `json:"spent"`  // the UTC day, and what was charged on it, in millionths of a dollar
	Others int64           `json:"others"` // charged on that day by gateways that do not share
	Month  [2]int64        `json:"month"`  // likewise the UTC month, and what was charged in it
	Before int64           `json:"before"` // charged in that month by gateways that do not share
	Asked  int64           `json:"asked"`  // when Others was read, in Unix nanoseconds; 0: never
	Latest int64           `json:"latest"` // time of the latest request
	Holds  map[string]hold `json:"holds"`  // by gateway
}

// hold is what one gateway holds of a client's limits.
type hold struct {
	Active int   `json:"active"`
	Tokens int64 `json:"tokens"`
	Charge int64 `json:"charge"`
	Seq    int64 `json:"seq"`   // of the gateway's last write
	Until  int64 `json:"until"` // when the hold ends unless it is written again, in Unix milliseconds
}

func (h hold) plus(o hold) hold {
	h.Active, h.Tokens, h.Charge = h.Active+o.Active, h.Tokens+o.Tokens, h.Charge+o.Charge
	return h
}

// keepHold is how long the hold of a gateway that ended stays, so that a gateway that was cut off finds out whether its last write arrived.
const keepHold = time.Hour

// encodeState writes counters without holds, and the holds beside them.
func encodeState(u *usage, holds map[string]hold, now time.Time) []byte {
	s := state{
		Tokens: [2]int64{u.tokens.at, u.tokens.n}, Spent: [2]int64{u.spent.at, u.spent.n}, Others: u.others,
		Month: [2]int64{u.month.at, u.month.n}, Before: u.before,
		Holds: make(map[string]hold, len(holds)),
	}
	for c, b := range u.rates {
		s.Paid[c], s.RPM[c] = b.paid, b.rpm
	}
	if !u.latest.IsZero() {
		s.Latest = u.latest.UnixNano()
	}
	if u.loaded {
		s.Asked = u.asked.UnixNano()
	}
	for who, h := range holds {
		if now.UnixMilli()-h.Until < keepHold.Milliseconds() {
			s.Holds[who] = h
		}
	}
	out, _ := json.Marshal(&s) // numbers alone
	return out
}

// decodeState reads what encodeState wrote.
func decodeState(raw []byte) (u usage, holds map[string]hold, err error) {
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return usage{}, nil, err
	}
	u = usage{
		tokens: window{s.Tokens[0], s.Tokens[1]}, spent: window{s.Spent[0], s.Spent[1]}, others: s.Others,
		month: window{s.Month[0], s.Month[1]}, before: s.Before,
		loaded: s.Asked != 0, asked: time.Unix(0, s.Asked),
	}
	if s.Latest != 0 {
		u.latest = time.Unix(0, s.Latest)
	}
	for c := range u.rates {
		u.rates[c] = bucket{paid: s.Paid[c], rpm: s.RPM[c]}
	}
	return u, s.Holds, nil
}

// newer is the later of two counts, of the same hour or day the greater: counts only grow, so that what is less was lost.
func newer(a, b window) window {
	if a.at > b.at || a.at == b.at && a.n > b.n {
		return a
	}
	return b
}

// add adds a count of another window, unless its hour or day is over.
func (w *window) add(o window) {
	if o.n == 0 || o.at < w.at-1 {
		return
	}
	w.roll(o.at)
	w.n += o.n
}

// less takes away what was counted elsewhere meanwhile.
func (w *window) less(o window) {
	if w.at == o.at {
		w.n -= o.n
	}
}
