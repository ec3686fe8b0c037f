// Package align is layer L1: it aligns requests with the prompt caches of providers (D-35). It moves the volatile blocks of a system prompt after the others,
// and decides where cache marks pay: at the end of the part that repeats from request to request. Providers' encoders set the marks.
package align

import (
	"context"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/jsonx"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l1"

// minBody is the size in bytes below which no provider caches anything: the smallest minimum is 1,024 tokens, which have at least as many bytes.
const minBody = 1024

// Layer aligns requests. Safe for concurrent use.
type Layer struct {
	Memory  *Memory // shared across changes of the configuration
	NoMarks bool    // requests are reordered, but not marked
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Timed     = Layer{}
)

// Name is "l1".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether a provider may cache anything of the request.
func (Layer) Applies(x *pipeline.Exchange) bool {
	return x.Request.Op == chat.Generate && len(x.Found) > 0 && !x.ForSealed() && (len(x.Request.Doc.Bytes) >= minBody || len(x.Request.Flags) > 0)
}

// expected is the expected time of Request.
const expected = 10 * time.Millisecond

// Expected implements pipeline.Timed.
func (Layer) Expected(*pipeline.Exchange) time.Duration { return expected }

// Request reorders the system prompt and tools, and plans the marks.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	var changes []string
	marked := marksOf(x.Request)
	if !marked.system {
		moved, err := reorder(x)
		if err != nil {
			return err
		}
		if moved {
			changes = append(changes, "system-order")
		}
	}
	prompt, tools := promptOf(x.Request), toolsOf(&x.Request.Doc)
	key := l.Memory.keyOf(x, &prompt, &tools)
	seen := l.Memory.observe(key, clock.Now(), &prompt, &tools, sumsOf(turnsOf(originalDoc(x))))
	if seen.sortTools && !marked.tools {
		sorted, err := sortTools(x, &tools)
		if err != nil {
			return err
		}
		if sorted {
			changes = append(changes, "tools-order")
		}
	}
	if plan := planOf(x.Request, &prompt, seen, marked); plan.SetsMarks() && !l.NoMarks {
		r := *x.Request
		r.Cache = plan
		x.Request = &r
		changes = append(changes, markNames(plan)...)
	}
	x.Log = append(x.Log, pipeline.Entry{Layer: Name, Note: strings.Join(changes, ";")})
	return nil
}

// originalDoc is the document as the client sent it, by whose turns a conversation is recognised, even if its history was shortened.
func originalDoc(x *pipeline.Exchange) *jsonx.Doc {
	if x.Whole != nil {
		return &x.Whole.Doc
	}
	return &x.Request.Doc
}

// markNames names the marks of a plan.
func markNames(p *chat.CachePlan) (names []string) {
	if p.System > 0 {
		names = append(names, "system-mark")
	}
	if p.Tools {
		names = append(names, "tools-mark")
	}
	if p.End {
		names = append(names, "end-mark")
	}
	return names
}

// marks is where the client has set cache marks.
type marks struct{ any, system, tools bool }

const cacheControl = "cache_control"

var markWords = jsonx.WordsOf(cacheControl)

func marksOf(r *chat.Request) (m marks) {
	if !r.Doc.Stats.Keys.Meets(&markWords) {
		return m
	}
	in := func(v jsonx.Value) bool { return strings.Contains(string(v.Raw), `"`+cacheControl+`"`) }
	m.tools = in(r.Doc.Get("tools"))
	for _, c := range contentsOf(r.Dialect, &r.Doc) {
		m.system = m.system || in(c.outer)
	}
	m.any = in(r.Doc.Root())
	return m
}

// planOf is the marks that pay. If its profile wants marks, a prompt is marked from the first request on, otherwise once it has repeated. Requests with marks
// of the client get no others, unless the profile wants them.
func planOf(r *chat.Request, p *prompt, s observation, m marks) *chat.CachePlan {
	wanted := r.Profile != nil && (r.Profile.Default.MarkCache || r.Profile.Locked.MarkCache)
	plan := &chat.CachePlan{Beside: m.any}
	if !s.pays || !wanted && (!s.repeats || m.any) {
		return plan
	}
	if !m.system {
		plan.System = p.bytes(s.stable)
	}
	plan.Tools = !m.tools && p.hasTools
	plan.End = s.continues && !m.any && !r.VolatileEnd && s.stable == len(p.units) && !p.volatile
	return plan
}
