package main

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/policy"
)

// period are the flags that select a key's requests in a period.
type period struct{ key, since, until string }

// register adds the flags.
func (p *period) register(c *cobra.Command, key string) {
	c.Flags().StringVar(&p.key, "key", "", key)
	c.Flags().StringVar(&p.since, "since", "", "the earliest: how long ago (2h), how many days ago, a UTC day or a time (RFC 3339)")
	c.Flags().StringVar(&p.until, "until", "", "the latest, in the same forms; a day counts to its end")
}

// span reads since and until; the zero time if absent.
func (p *period) span(now time.Time) (since, until time.Time, err error) {
	if since, err = parseMoment("--since", p.since, now, false); err != nil {
		return since, until, err
	}
	until, err = parseMoment("--until", p.until, now, true)
	return since, until, err
}

// query converts the flags to a query of the admin API.
func (p *period) query(now time.Time) (url.Values, error) {
	since, until, err := p.span(now)
	if err != nil {
		return nil, err
	}
	id, err := keyOrNone(p.key)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if id != "" {
		q.Set("key", string(id))
	}
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q, nil
}

// keyOrNone validates a --key flag; "" if absent.
func keyOrNone(flag string) (policy.Account, error) {
	if flag == "" {
		return "", nil
	}
	return keyID(flag)
}

// parseMoment reads a time: a duration before now, an RFC 3339 time, or a day as parseDay reads it, which stands for its first moment, or its last if end is
// true. "" is the zero time.
func parseMoment(flag, s string, now time.Time, end bool) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 && s != "0" {
		return now.Add(-ago), nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	day, err := parseDay(flag, s, now)
	if err != nil {
		return day, fmt.Errorf("%s %q, expected a duration such as 2h, a day such as 2006-01-02, a number of days ago, or a time such as %s", flag, s, time.RFC3339)
	}
	if day.IsZero() {
		return day, nil
	}
	day = day.Truncate(24 * time.Hour)
	if end {
		day = day.AddDate(0, 0, 1).Add(-time.Microsecond)
	}
	return day, nil
}

// parseDay reads a day, or a number of days before now; "" is the zero time.
func parseDay(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := strconv.ParseUint(s, 10, 16); err == nil {
		return now.UTC().AddDate(0, 0, -int(ago)), nil
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q, expected a day such as 2006-01-02, or a number of days ago", flag, s)
	}
	return day, nil
}
