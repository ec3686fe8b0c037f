package policy

import (
	"slices"
	"strings"
	"time"
)

// Scope is what a key may be used for. The zero value does not restrict it.
type Scope struct {
	Models     []string  // ids, or prefixes that end in "*"; none for any
	Subsystems []string  // none for any
	Origins    []string  // of the web pages that may use it, such as "https://app.example"; none for any, and for programs
	Expires    time.Time // zero for never
}

// AllowsModel reports whether a model may be used.
func (s *Scope) AllowsModel(m ModelID) bool {
	return len(s.Models) == 0 || slices.ContainsFunc(s.Models, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return pattern == string(m) || open && strings.HasPrefix(string(m), prefix)
	})
}

// AllowsSubsystem reports whether a subsystem may use the key.
func (s *Scope) AllowsSubsystem(name string) bool {
	return len(s.Subsystems) == 0 || slices.Contains(s.Subsystems, name)
}

// AllowsOrigin reports whether a page of an origin may use the key; "" is a program.
func (s *Scope) AllowsOrigin(origin string) bool {
	return len(s.Origins) == 0 || slices.ContainsFunc(s.Origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// Expired reports whether the key has expired.
func (s *Scope) Expired(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }

// Holder is the kind of holder of a shared budget.
type Holder string

// The holders, each within the next one.
const (
	OfKey     Holder = "key"
	OfProject Holder = "project"
	OfOwner   Holder = "owner"
)

// Budget limits what the requests of a key, of a project's keys, or of an owner's projects are charged in total. Zero means no limit. Days and months
// are UTC.
type Budget struct {
	Holder   Holder
	ID       string
	PerDay   Micro
	PerMonth Micro
}
