package hint

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// features adds the features of a list to another one, each once.
func (v value) features(into *[]policy.Feature) error {
	return v.items(func(_ int, item value) error {
		s, ok := item.str()
		if !ok || s == "" {
			return item.wrong("expected the name of a feature")
		}
		f, ok := policy.ParseFeature(strings.ToLower(s))
		if !ok {
			return unknownFeature(item, s)
		}
		if !slices.Contains(*into, f) { // so there are never more than there are features
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
		return &wrong{problem: "there is no feature " + v.shown() + "; did you mean " + like[0] + "?"}
	}
	return &wrong{problem: "there is no feature " + v.shown() + "; there are " + strings.Join(names, ", ")}
}

// readTaskClass reads a kind of task, in any of the ways in which programs spell names. The set is closed: the class decides how
// private a task is, and one that is misspelled must not be taken for one that is not.
func readTaskClass(h *policy.Hints, v value) error {
	s, ok := v.str()
	if ok && len(s) <= longestWord {
		if name := snake(s); intent.IsTaskClass(name) {
			h.TaskClass = name
			return nil
		}
	}
	if like := near.Names(s, intent.TaskClasses(), 1); len(like) > 0 {
		return &wrong{problem: "there is no task class " + v.shown() + "; did you mean " + like[0] + "?"}
	}
	return v.wrong("expected one of %s", strings.Join(intent.TaskClasses(), ", "))
}

// snake is a name in snake case: SealedAuction, sealed-auction and sealed_auction are one.
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

// readBudget reads an amount of dollars. It is a wish, not money: what is below a base unit is dropped.
func readBudget(h *policy.Hints, v value) error {
	if s, ok := v.json.Str(); ok {
		v = value{text: s}
	}
	f, err := v.float(0, mostUSD)
	h.DailyBudget = policy.Micro(f * float64(policy.USD))
	return err
}

func readLatency(h *policy.Hints, v value) error {
	var ms int64
	err := v.integer(&ms, 1, mostLatency)
	h.MaxLatency = time.Duration(ms) * time.Millisecond
	return err
}

const (
	mostEntities = 64
	mostTimes    = 64
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
	return readObject(&h.Scenario, object, scenario, 0, longestObject, "scenario", &h.Unknown)
}

// entity is one of a scenario's, by its members; by its name alone it is one that the agent knows nothing of.
var entity = []member[policy.Entity]{
	{name: "name", set: func(e *policy.Entity, v value) error { return v.prose(&e.Name, longestID) }},
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
		if i >= mostEntities {
			return item.wrong("expected at most %d entities", mostEntities)
		}
		if _, isName := item.str(); isName {
			if err := item.prose(&e.Name, longestID); err != nil {
				return err
			}
		} else if err := readObject(&e, item.json, entity, 0, longestJSON, "", new([]string)); err != nil {
			return err
		}
		if e.Name == "" {
			return at(".name", &wrong{problem: "is required"})
		}
		s.Entities = append(s.Entities, e)
		return nil
	})
}

// readTimes reads moments: as RFC 3339 has them, as a day, or in seconds since 1970.
func readTimes(s *policy.Scenario, v value) error {
	return v.items(func(i int, item value) error {
		if i >= mostTimes {
			return item.wrong("expected at most %d moments", mostTimes)
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
		return item.wrong("expected a moment as 2026-01-02T15:04:05Z, a day, or seconds since 1970")
	})
}
