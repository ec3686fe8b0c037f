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

// Names finds names of people, places and the like, by a local model. The zero value finds none.
type Names struct {
	Finder  *pii.Memo
	Timeout time.Duration // for all texts of a request; zero means 2 s
	Allow   bool          // in the modes mask and block, a request is sent although the model did not answer in time; otherwise it is refused
}

// defaultNamesTimeout is the default of Names.Timeout.
const defaultNamesTimeout = 2 * time.Second

// Waits reports whether a request is searched for names.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	return l.Names.Finder != nil && l.extent(x) == everything
}

// addNames adds the names in texts of people and tools to the finding. They are masked in all texts, since the vault has their values.
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
	namesCtx, cancel := context.WithTimeout(ctx, cmp.Or(l.Names.Timeout, defaultNamesTimeout))
	defer cancel()
	for i := range t.Texts {
		if !searchedForNames(t.Texts[i].Kind) {
			continue
		}
		if err := l.addNamesOf(namesCtx, t, i, known, &s.found); err != nil {
			s.namesUnknown = true
			break
		}
	}
	switch {
	case !s.namesUnknown:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case mode == Detect || l.Names.Allow:
		return nil
	}
	return fault.Newf(fault.Overloaded, "the local model that finds names in texts gave no answer in time, and names are not sent from this gateway: try again, or send less text")
}

// searchedForNames reports whether texts of a kind are searched for names: those of people and tools.
func searchedForNames(k transcript.Kind) bool {
	return k == transcript.User || k == transcript.Result || k == transcript.Document
}

// addNamesOf adds the names in one text.
func (l Layer) addNamesOf(ctx context.Context, t *transcript.Transcript, i int, known map[string]bool, f *finding) (err error) {
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
