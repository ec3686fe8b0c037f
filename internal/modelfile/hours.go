package modelfile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// HourPrice is the price in a part of the day. From and To are in the format of ParseClock.
type HourPrice struct {
	From         string        `key:"from" doc:"When the part begins, such as 16:30, UTC."`
	To           string        `key:"to" doc:"When it ends, such as 00:30, UTC: on the next day where that is earlier. 24:00 is the end of a day."`
	Days         []string      `key:"days" oneof:"mon tue wed thu fri sat sun" doc:"The days of the week on which it begins, UTC. Without them, each day."`
	Percent      int           `key:"pct" min:"1" max:"1000" doc:"Percent of the usual prices of all tokens, those of longer prompts and of service tiers too. Without it, the prices of tokens that follow."`
	Input        *policy.Price `key:"input" doc:"Input tokens."`
	Output       *policy.Price `key:"output" doc:"Output tokens, reasoning included."`
	CachedInput  *policy.Price `key:"cached_input" doc:"Input tokens read from the provider's cache. Without it, as input."`
	CacheWrite   *policy.Price `key:"cache_write" doc:"Input tokens written to a five-minute cache. Without it, as input."`
	CacheWrite1h *policy.Price `key:"cache_write_1h" doc:"Input tokens written to a one-hour cache. Without it, as cache_write."`
	Above        []LongPrice   `key:"above" doc:"Prices of longer prompts then. Without it, the usual ones."`
}

// wholeDay is the number of minutes of a day.
const wholeDay = 24 * 60

// ParseClock returns the minutes from midnight to a time of day of the form 16:30, at most 24:00.
func ParseClock(s string) (minutes int, ok bool) {
	h, m, found := strings.Cut(s, ":")
	hour, err := strconv.ParseUint(h, 10, 8)
	minute, err2 := strconv.ParseUint(m, 10, 8)
	if !found || err != nil || err2 != nil || len(h) != 2 || len(m) != 2 || minute > 59 || hour > 24 || hour == 24 && minute > 0 {
		return 0, false
	}
	return int(hour)*60 + int(minute), true
}

// Name returns the part of the day for display.
func (h *HourPrice) Name() string { return h.From + "-" + h.To + " UTC" }

// holds reports whether a time is in the part of the day; false if the part is invalid.
func (h *HourPrice) holds(t time.Time) bool {
	from, ok := ParseClock(h.From)
	to, ok2 := ParseClock(h.To)
	if !ok || !ok2 {
		return false
	}
	t = t.UTC()
	now := t.Hour()*60 + t.Minute()
	if from < to {
		return from <= now && now < to && h.begins(t)
	}
	return now >= from && h.begins(t) || now < to && h.begins(t.AddDate(0, 0, -1))
}

// begins reports whether the part begins on the day of a time.
func (h *HourPrice) begins(t time.Time) bool {
	return len(h.Days) == 0 || slices.Contains(h.Days, strings.ToLower(t.Weekday().String()[:3]))
}

// next returns the first time after t at which the part begins or ends, on any day.
func (h *HourPrice) next(t time.Time) (first time.Time) {
	t = t.UTC()
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	for _, clock := range [...]string{h.From, h.To} {
		minutes, ok := ParseClock(clock)
		if !ok {
			continue
		}
		at := midnight.Add(time.Duration(minutes%wholeDay) * time.Minute)
		if !at.After(t) {
			at = at.AddDate(0, 0, 1)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// At returns the part of the day whose price applies at a time, nil for the regular price, and the next time at which that may change, zero for
// never.
func (p *Price) At(t time.Time) (now *HourPrice, until time.Time) {
	if p == nil {
		return nil, until
	}
	for i := range p.Hours {
		h := &p.Hours[i]
		if now == nil && h.holds(t) {
			now = h
		}
		if next := h.next(t); until.IsZero() || !next.IsZero() && next.Before(until) {
			until = next
		}
	}
	return now, until
}

// In returns the price with the token prices of a part of the day, without its percentage.
func (p *Price) In(h *HourPrice) *Price {
	if h.Input == nil || h.Output == nil {
		return p
	}
	out := *p
	out.Input, out.Output, out.CachedInput, out.CacheWrite, out.CacheWrite1h = h.Input, h.Output, h.CachedInput, h.CacheWrite, h.CacheWrite1h
	if h.Above != nil {
		out.Above = h.Above
	}
	return &out
}
