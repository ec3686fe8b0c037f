package profile_test

import (
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// A profile is built once per request of an agent; requests without hints cost a few comparisons.
func BenchmarkBuild(b *testing.B) {
	p, _ := profile.New(profile.Settings{Overrides: map[string]policy.Profile{"dream_rem": {Temperature: new(1.0)}}})
	for name, h := range map[string]policy.Hints{
		"no hints": {}, "dream": {Subsystem: "dream_rem", GolemID: "golem-7", REMCall: 2, Vitality: new(0.4)}, "locked": {Subsystem: "risk", GolemID: "golem-7"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Build(&h, nil, now)
			}
		})
	}
}
