// Package semcache is layer L2, the semantic cache: it answers a question with the stored answer to another question of the same meaning. It decides which
// requests are eligible, and which stored answers may be served; package semantic compares questions, and the data path serves the answers.
package semcache

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"
	"unicode"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Mode is what the layer does with stored answers to other questions.
type Mode string

// The modes. The zero value is Off.
const (
	Off    Mode = "off"
	Shadow Mode = "shadow" // they are found and counted, but not served
	On     Mode = "on"
)

// Result is the result of a lookup.
type Result string

// The results.
const (
	Hit       Result = "hit"        // a stored answer was served
	ShadowHit Result = "shadow_hit" // one would have been
	Below     Result = "below"      // there are questions of the same form, but none is similar enough
	Miss      Result = "miss"       // there is no question of the same form
	NoModel   Result = "no_model"   // the model is not in memory, too slow or too busy
)

// Results are all of them.
var Results = []Result{Hit, ShadowHit, Below, Miss, NoModel}

// Bounds of a question. Tokens are estimated.
const (
	maxTokens = 64
	maxBytes  = 1024
)

// maxTemperature is the highest temperature at which the answer to an equivalent question may be served (D-31).
const maxTemperature = 0.7

// DefaultTimeout is the default time limit of a lookup.
const DefaultTimeout = 50 * time.Millisecond

// Name is the layer's.
const Name = "l2"

// Layer is the semantic cache over a store.
type Layer struct {
	Mode      Mode
	Store     *cache.Store
	Index     *semantic.Index
	Model     *semantic.Model // nil: the layer is off
	Threshold float64         // of the cosine; 0 means the model's
	TTL       time.Duration
	Pool      bool          // keys of the free plan share answers
	Timeout   time.Duration // zero means DefaultTimeout
	Scope     Scope
	Count     func(Result) // called with each result; may be nil
}

// Scope is the requests for which the layer runs. An empty list means all.
type Scope struct {
	Keys       []policy.Account // or names of keys
	Plans      []policy.Tier
	Subsystems []string
	Models     []string // as requested
}

func (s *Scope) has(x *pipeline.Exchange) bool {
	p := &x.Principal
	return (len(s.Keys) == 0 || slices.Contains(s.Keys, p.Account) || slices.Contains(s.Keys, policy.Account(p.Name))) &&
		(len(s.Plans) == 0 || slices.Contains(s.Plans, p.Tier)) &&
		(len(s.Subsystems) == 0 || slices.Contains(s.Subsystems, x.Hints.Subsystem)) &&
		(len(s.Models) == 0 || slices.Contains(s.Models, x.Request.Model))
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Budgeted  = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Responder = Layer{}
)

// Name is the layer's name in X-Bardo-Pipeline.
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Budget is the time limit of the search. A question that is not compared in time is answered by a provider.
func (l Layer) Budget() time.Duration { return cmp.Or(l.Timeout, DefaultTimeout) }

// Waits reports whether the request may wait for the model.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.Applies(x) }

// Applies reports whether the request may be eligible, without parsing its conversation.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	r := x.Request
	return (l.Mode == On || l.Mode == Shadow) && l.Model != nil && r.Op == chat.Generate && r.Choices <= 1 && !r.Thinking && !r.Retrieved && !x.Hints.NoCache &&
		x.Hints.SecurityClass == policy.SecurityStandard && x.Intent.Security == policy.SecurityStandard && x.MayShare() && !x.ForEnclave() &&
		hasLowTemperature(r) && l.Scope.has(x)
}

// hasLowTemperature reports whether the request's temperature, the client's or its profile's, is low or not set.
func hasLowTemperature(r *chat.Request) bool {
	temperature := r.Temperature()
	if temperature == "" {
		return true
	}
	t, ok := jsonx.Value{Raw: jsonx.Raw(temperature)}.Float()
	return ok && t <= maxTemperature
}

// Request looks up the stored answer to a question of the same meaning. Without one, the answer to this question will be stored.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	control, err := cache.ParseControl(x.Header)
	if err != nil || control.Off {
		return err
	}
	turn, ok := cache.TurnOf(x.CacheTenant(l.Pool), x.Request)
	if !ok || !short(turn.Text) {
		return nil
	}
	place := semantic.PlaceOf(&turn, semantic.FormOf(turn.Text))
	t := x.Cache
	if t == nil {
		t = l.ticket(x, control)
	}
	q := &semantic.Question{Tenant: x.CacheTenant(l.Pool), Text: turn.Text}
	found, result := l.search(ctx, t, q, place, x.Knobs.Similarity)
	if l.Mode == Shadow && result == Hit {
		result = ShadowHit
	}
	if l.Count != nil {
		l.Count(result)
	}
	x.Log = append(x.Log, pipeline.Entry{Layer: l.Name(), Note: note(result, found.similarity)})
	l.adopt(x, t)
	if result == Hit {
		x.Answer, x.Similarity = found.entry, found.similarity
		return nil
	}
	if t.Records() {
		t.Stored = func(e *cache.Entry) { l.addQuestion(q, place, e) }
	}
	return nil
}

// ticket is the ticket of a request that is not eligible for the exact cache.
func (l Layer) ticket(x *pipeline.Exchange, control cache.Control) *cache.Ticket {
	tenant, r := x.CacheTenant(l.Pool), x.Request
	t := l.Store.Ticket(tenant, cache.KeyOf(tenant, r), cache.Format{Dialect: r.Dialect, Stream: r.Stream}, control, l.TTL)
	t.Current, t.Market, t.Uncoalesced, t.Private = x.Current, x.Market, true, x.KeepsNothing()
	return t
}

// adopt sets the request's ticket, unless the exact cache has set it.
func (l Layer) adopt(x *pipeline.Exchange, t *cache.Ticket) {
	if x.Cache == t {
		return
	}
	x.Cache, x.CacheLayer = t, l.Name()
	if t.Records() {
		x.Watch(l.Name(), l)
	}
}

// Response records the answer of a request that only this layer stores.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	x.Cache.Record(ev)
	if ev.Kind == chat.End {
		x.Cache.Finish(*x.Served)
	}
	return append(out, *ev), nil
}

// found is a stored answer, and how similar its question is.
type found struct {
	entry      *cache.Entry
	similarity float64
}

// search finds the stored answer to the most similar question. minSimilarity can raise the threshold, but not lower it.
func (l Layer) search(ctx context.Context, t *cache.Ticket, q *semantic.Question, p semantic.Place, minSimilarity float64) (found, Result) {
	rows, now, err := l.Index.Lookup(ctx, q.Tenant, p, l.Store.Now())
	t.RecordState(now, err)
	ready := l.Model.Ready()
	switch {
	case err != nil || t.Control.NoLookup || len(rows) == 0:
		return found{}, Miss
	case !ready:
		return found{}, NoModel
	}
	matches, err := l.Index.Rank(ctx, l.Model.Embedder, q, rows)
	if err != nil {
		return found{}, NoModel
	}
	threshold := l.Threshold
	if threshold == 0 {
		threshold = l.Model.Embedder.Threshold()
	}
	threshold = max(threshold, minSimilarity)
	f := found{}
	for i := range matches {
		m := &matches[i]
		if f.similarity = max(f.similarity, m.Similarity); m.Similarity < threshold {
			return f, Below
		}
		if e := t.FreshAt(ctx, m.Key); e != nil {
			return found{e, m.Similarity}, Hit
		}
	}
	return found{}, Miss // none of them may be served to this request
}

// addQuestion adds a question whose answer was stored. Answers that call tools are not added: they are only served to identical requests.
func (l Layer) addQuestion(q *semantic.Question, p semantic.Place, e *cache.Entry) {
	for ev := range e.Events {
		if ev.Kind == chat.ToolStart {
			return
		}
	}
	l.Index.Add(q.Tenant, p, q.Row(e))
}

// note is the note in X-Bardo-Pipeline.
func note(r Result, similarity float64) string {
	switch r {
	case Hit, Miss:
		return ""
	case ShadowHit, Below:
		return string(r) + ";similarity=" + strconv.FormatFloat(similarity, 'f', 3, 64)
	case NoModel:
		return string(r)
	}
	return ""
}

// short reports whether a text is not empty, and has an estimated 64 tokens at most: one for each six letters of a word, and one for each other sign.
func short(s string) bool {
	if s == "" || len(s) > maxBytes {
		return false
	}
	tokens, run := 0, 0
	for _, r := range s {
		switch {
		case r > 0x2E80: // scripts without spaces
			tokens, run = tokens+1, 0
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if run%6 == 0 {
				tokens++
			}
			run++
		default:
			if run = 0; r > ' ' {
				tokens++
			}
		}
	}
	return tokens <= maxTokens
}
