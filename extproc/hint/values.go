package hint

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// features adds the features of a list to another one, each once.
func (v value) features(into *[]policy.Feature) error {
	return v.items(func(_ int, item value) error {
		s, ok := item.str()
		if !ok || s == "" {
			return item.invalid("expected the name of a feature")
		}
		f, ok := policy.ParseFeature(strings.ToLower(s))
		if !ok {
			return unknownFeature(item, s)
		}
		if !slices.Contains(*into, f) { // bounds the list by the number of features
			*into = append(*into, f)
		}
		return nil
	})
}

func unknownFeature(v value, s string) error {
	all := policy.Features()
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = string(f)
	}
	if like := near.Names(s, names, 1); len(like) > 0 {
		return &hintError{problem: "there is no feature " + v.quoted() + "; did you mean " + like[0] + "?"}
	}
	return &hintError{problem: "there is no feature " + v.quoted() + "; there are " + strings.Join(names, ", ")}
}

// readTaskClass parses a task class in any case convention. Unknown classes are errors: the class determines the privacy of a task, and a
// misspelled one must not weaken it.
func readTaskClass(h *policy.Hints, v value) error {
	s, ok := v.str()
	if ok && len(s) <= maxWord {
		if name := snake(s); privacy.IsClass(name) {
			h.TaskClass = name
			return nil
		}
	}
	if like := near.Names(s, privacy.Classes(), 1); len(like) > 0 {
		return &hintError{problem: "there is no task class " + v.quoted() + "; did you mean " + like[0] + "?"}
	}
	return v.invalid("expected one of %s", strings.Join(privacy.Classes(), ", "))
}

// snake converts SealedAuction and sealed-auction to sealed_auction.
func snake(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == '-' || unicode.IsUpper(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '-':
			r = '_'
		case unicode.IsUpper(r):
			if i > 0 && !strings.HasSuffix(b.String(), "_") && unicode.IsLower(rune(s[i-1])) {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// readBudget parses an amount in USD. Fractions of a base unit are dropped: it is a limit, not a payment.
func readBudget(h *policy.Hints, v value) error {
	if s, ok := v.json.Str(); ok {
		v = value{text: s}
	}
	f, err := v.float(0, maxUSD)
	h.DailyBudget = policy.Micro(f * float64(policy.USD))
	return err
}

func readLatency(h *policy.Hints, v value) error {
	var ms int64
	err := v.integer(&ms, 1, maxLatency)
	h.MaxLatency = time.Duration(ms) * time.Millisecond
	return err
}

const (
	maxEntities = 64
	maxTimes    = 64
)

var scenario = []member[policy.Scenario]{
	{name: "entities", set: readEntities},
	{name: "temporal_references", set: readTimes},
}

func readScenario(h *policy.Hints, v value) error {
	object, err := v.object()
	if err != nil {
		return err
	}
	h.Scenario = policy.Scenario{}
	return readObject(&h.Scenario, object, scenario, 0, maxObject, "scenario", &h.Unknown)
}

// entity are the members of an entity of a scenario. An entity may also be given by its name alone: then it has no episodes.
var entity = []member[policy.Entity]{
	{name: "name", set: func(e *policy.Entity, v value) error { return v.prose(&e.Name, maxID) }},
	{name: "episodes", set: func(e *policy.Entity, v value) error {
		var n int64
		err := v.integer(&n, 0, 1<<31-1)
		e.Episodes = int(n)
		return err
	}},
}

func readEntities(s *policy.Scenario, v value) error {
	return v.items(func(i int, item value) error {
		var e policy.Entity
		if i >= maxEntities {
			return item.invalid("expected at most %d entities", maxEntities)
		}
		if _, isName := item.str(); isName {
			if err := item.prose(&e.Name, maxID); err != nil {
				return err
			}
		} else if err := readObject(&e, item.json, entity, 0, maxHeaderJSON, "", new([]string)); err != nil {
			return err
		}
		if e.Name == "" {
			return withPath(".name", &hintError{problem: "is required"})
		}
		s.Entities = append(s.Entities, e)
		return nil
	})
}

// readTimes parses times: RFC 3339, a date, or seconds since 1970.
func readTimes(s *policy.Scenario, v value) error {
	return v.items(func(i int, item value) error {
		if i >= maxTimes {
			return item.invalid("expected at most %d moments", maxTimes)
		}
		if unix, ok := item.json.Int(); ok && unix >= 0 && unix < 1<<38 {
			s.Times = append(s.Times, time.Unix(unix, 0).UTC())
			return nil
		}
		text, ok := item.str()
		for _, layout := range []string{time.RFC3339, time.DateOnly} {
			if t, err := time.Parse(layout, text); ok && err == nil {
				s.Times = append(s.Times, t.UTC())
				return nil
			}
		}
		return item.invalid("expected a moment as 2026-01-02T15:04:05Z, a day, or seconds since 1970")
	})
}
