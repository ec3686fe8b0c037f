package pii

import (
	"cmp"
	"context"
	"time"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
)

// Names looks for names of people, places and the like, by a local model. The zero value looks for none.
type Names struct {
	Finder  *pii.Memo
	Timeout time.Duration // for all texts of a request that are not known; zero means 2 s
	Allow   bool          // what is to be masked or refused is sent as it is where the model gives no answer in time; else it is refused
}

// usualNames is Names.Timeout if it is zero.
const usualNames = 2 * time.Second

// Waits reports whether names are looked for in a request.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	return l.Names.Finder != nil && l.extent(x) == everything
}

// addNames adds the names in what people and tools wrote to what was found. They are masked wherever they stand, since the vault knows their values.
func (l Layer) addNames(ctx context.Context, x *pipeline.Exchange, s *state, mode Mode) error {
	if l.Names.Finder == nil {
		return nil
	}
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(s.found.values))
	for _, v := range s.found.values {
		known[v.text] = true
	}
	own, cancel := context.WithTimeout(ctx, cmp.Or(l.Names.Timeout, usualNames))
	defer cancel()
	for i := range t.Texts {
		if !namesPeople(t.Texts[i].Kind) {
			continue
		}
		if err := l.namesOf(own, t, i, known, &s.found); err != nil {
			s.unnamed = true
			break
		}
	}
	switch {
	case !s.unnamed:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case mode == Detect || l.Names.Allow:
		return nil
	}
	return fault.Newf(fault.Overloaded, "the local model that finds names in texts gave no answer in time, and names are not sent from this gateway: try again, or send less text")
}

// namesPeople reports whether names are looked for in texts of a kind: in what people and tools wrote.
func namesPeople(k transcript.Kind) bool {
	return k == transcript.User || k == transcript.Result || k == transcript.Document
}

// namesOf adds the names in one text.
func (l Layer) namesOf(ctx context.Context, t *transcript.Transcript, i int, known map[string]bool, f *finding) (err error) {
	t.Edit(i, func(text string) (string, bool) {
		if err != nil {
			return "", false
		}
		var spans []pii.Span
		spans, err = l.Names.Finder.Find(ctx, text)
		for _, at := range spans {
			if name := text[at.Start:at.End]; !known[name] {
				known[name] = true
				f.add(at.Type, name)
			}
		}
		return "", false
	})
	return err
}
