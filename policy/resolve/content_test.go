package resolve_test

import (
	"errors"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// D-86: a model that is known not to support the request's content is skipped, even if the request names it. One with unknown capabilities is not.
func TestD86ModelsThatTakeNotWhatTheRequestHoldsAreSkipped(t *testing.T) {
	const models = `
  - {id: blind, family: a, price: {input: 1, output: 1}, capabilities: [tools]}
  - {id: sees, family: b, price: {input: 2, output: 2}, capabilities: [vision]}
  - {id: hears, family: c, price: {input: 3, output: 3}, capabilities: [vision, audio, video]}
  - {id: unknown, family: d, price: {input: 4, output: 4}}
`
	named := made(t, models, `providers: {custom: [{id: p, endpoints: [http://localhost:1/v1], models: [{id: blind}, {id: sees}, {id: hears}, {id: unknown}]}, `+
		`{id: q, endpoints: [http://localhost:1/v1], models: [{id: blind, capabilities: [vision, audio]}]}]}`)
	known := made(t, models, `providers: {custom: [{id: p, endpoints: [http://localhost:1/v1], models: [{id: blind}, {id: sees}]}]}`)
	images := func(in *policy.Intent) { in.Images = true }
	audio := func(in *policy.Intent) { in.Audio = true }
	video := func(in *policy.Intent) { in.Video = true }
	documents := func(in *policy.Intent) { in.Documents = true }
	for _, row := range []struct {
		about, model string
		r            *resolve.Resolver
		holds        func(*policy.Intent)
		want         string // the order, or what no model takes
	}{
		{"words", "blind", named, func(*policy.Intent) {}, "p/blind; q/blind"},
		{"images, at the provider where it sees", "blind", named, images, "q/blind"},
		{"audio, at the provider where it hears", "blind", named, audio, "q/blind"},
		{"video, nowhere", "blind", named, video, "no available model takes video"},
		{"images, of one that sees", "sees", named, images, "p/sees"},
		{"documents, of one that sees", "sees", named, documents, "p/sees"},
		{"documents, of one that does not", "p/blind", named, documents, "no available model takes documents"},
		{"audio, of one that only sees", "sees", named, audio, "no available model takes audio"},
		{"video, of one that takes it", "hears", named, video, "p/hears"},
		{"audio, of one that nobody knows", "unknown", named, audio, "p/unknown"},
		{"audio, whoever takes it", "", known, audio, "no available model takes audio"},
		{"images, whoever takes them", "", known, images, "p/sees"},
	} {
		t.Run(row.about, func(t *testing.T) {
			in := &policy.Intent{Model: row.model}
			row.holds(in)
			d := row.r.Decide(in)
			got := ways(d.Order)
			if d.Err != nil {
				var u *resolve.UnsupportedContentError
				if f := fault.From(d.Err); f.Kind != fault.InvalidRequest || !errors.As(d.Err, &u) {
					t.Fatalf("got %v", d.Err)
				}
				got = u.Error()
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// Explain says what a provider does not take.
func TestD86ExplainSaysWhatIsNotTaken(t *testing.T) {
	r := made(t, "  - {id: m, capabilities: [tools]}", `providers: {custom: [{id: p, endpoints: [http://localhost:1/v1], models: [{id: m}]}, {id: q, endpoints: [http://localhost:1/v1], models: [{id: m, capabilities: [audio]}]}]}`)
	d := r.Explain(&policy.Intent{Model: "m", Audio: true})
	if len(d.Refused) != 1 || d.Refused[0].Provider != "p" || d.Refused[0].Reason != "the request holds audio, and it takes none" {
		t.Errorf("got %+v", d.Refused)
	}
}
