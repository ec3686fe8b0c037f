// Package pii is layer L7: it finds personal data and secrets in requests, and in mode mask replaces them before anything is sent to a provider, and restores
// them in the answer (D-37). Private keys and seed phrases are never sent to a provider.
package pii

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l7"

// Mode is what happens to personal data.
type Mode string

// The modes.
const (
	Off    Mode = "off"    // nothing is searched, except in confidential requests
	Detect Mode = "detect" // counted; private keys and seed phrases are refused
	Mask   Mode = "mask"   // replaced by placeholders, and restored in the answer
	Block  Mode = "block"  // refused
)

// Refuse is which requests are refused because of parts that cannot be searched, in the modes mask and block.
type Refuse string

// The values of Refuse.
const (
	Tokens Refuse = "tokens" // those with lists of tokens or vectors instead of a text
	All    Refuse = "all"    // also those with pictures, sound or files
	None   Refuse = "none"   // nothing
)

// Layer detects, masks or refuses. Safe for concurrent use.
type Layer struct {
	Mode        Mode   // "" means Detect
	RefuseParts Refuse // "" means Tokens
	Finder      *pii.Memo
	Names       Names
	Secret      func() []byte // from which tenants' keys of placeholders are derived
}

var (
	_ pipeline.Layer      = Layer{}
	_ pipeline.Selective  = Layer{}
	_ pipeline.Responder  = Layer{}
	_ pipeline.Guarding   = Layer{}
	_ pipeline.Protecting = Layer{}
	_ pipeline.Waiting    = Layer{}
	_ pipeline.Demanding  = Layer{}
	_ pipeline.Forbidding = Layer{}
)

// Name is "l7".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: what must not be sent to providers does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// state is the layer's state for an exchange.
type state struct {
	found        finding
	unsearchable unsearchable
	err          error
	vault        *pii.Vault
	streams      []*stream
	custom       map[block]bool // tool calls whose arguments are not JSON
	namesUnknown bool           // the names in its texts were not found in time
}

var slot = pipeline.NewSlot[state]()

// mode is that of the request's key, otherwise the configured one. Confidential requests are at least masked (D-05).
func (l Layer) mode(p *policy.Principal, class policy.SecurityClass) Mode {
	m := cmp.Or(Mode(p.Guards.PII), l.Mode, Detect)
	if m != Block && class == policy.SecurityConfidential {
		return Mask
	}
	return m
}

// Guard implements pipeline.Guarding.
func (l Layer) Guard(p *policy.Principal, class policy.SecurityClass) (name, does string) {
	return "pii", string(l.mode(p, class))
}

// Demands implements pipeline.Demanding.
func (l Layer) Demands(x *pipeline.Exchange) string {
	switch m := l.mode(&x.Principal, x.Hints.SecurityClass); {
	case x.DirectKey:
	case m == Mask:
		return "personal data has to be masked (pipeline.pii.policy, the key's --pii, or a confidential request)"
	case m == Block:
		return "personal data has to be refused (pipeline.pii.policy, or the key's --pii)"
	}
	return ""
}

// Protects implements pipeline.Protecting: embeddings, legacy completions and the like are sent to providers as well.
func (Layer) Protects() {}

// Applies searches the request, and reports whether Request has anything to do.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	extent := l.extent(x)
	if extent == nothing {
		return false
	}
	s := slot.Of(x)
	s.found, s.err = l.search(context.Background(), x)
	if s.err != nil || extent == forbidden {
		return s.err != nil || s.found.secretAt != ""
	}
	if l.mode(&x.Principal, x.Hints.SecurityClass) != Detect {
		s.unsearchable = unsearchableOf(x)
	}
	return len(s.found.counts) > 0 || s.unsearchable != unsearchable{} || l.Names.Finder != nil
}

// extent is what a request is searched for.
type extent uint8

const (
	nothing    extent = iota
	forbidden         // private keys and seed phrases, which are refused; nothing else happens
	everything        // by the mode
)

// extent is what a request is searched for. One that is sent only to an enclave is not changed, since the receipt of its answer covers it (D-30), but may be
// refused (D-37). One that is encrypted end to end is not searched.
func (l Layer) extent(x *pipeline.Exchange) extent {
	switch {
	case l.mode(&x.Principal, x.Hints.SecurityClass) == Off || x.DirectKey:
		return nothing
	case !x.StaysInEnclave():
		return everything
	case x.NeedsSealed():
		return nothing
	}
	return forbidden
}

// maxCachedTexts is the number of texts above which a request's results are not remembered: a batch of embeddings must not displace those of conversations.
const maxCachedTexts = 2048

// finding is the result of searching the texts of a request.
type finding struct {
	uncached  bool // results are not remembered
	counts    map[pii.Type]int
	values    []value  // in the request's order
	inHints   bool     // some of them are in hints
	secretAt  string   // the location of the first private key or seed phrase
	fullNames []string // names that were found in parts, joined
	minDigits int      // digits of the shortest value that is a JSON number; 0 for none
}

// minNumber is the number of digits from which a JSON number may be a value.
func (f *finding) minNumber() int { return cmp.Or(f.minDigits, transcript.LongNumber) }

func (f *finding) add(t pii.Type, text string) {
	if f.counts == nil {
		f.counts = make(map[pii.Type]int)
	}
	f.counts[t]++
	f.values = append(f.values, value{t, text})
}

type value struct {
	t    pii.Type
	text string
}

// search searches the texts of the request, except those that are known to have nothing.
func (l Layer) search(ctx context.Context, x *pipeline.Exchange) (f finding, err error) {
	t, err := x.Transcript()
	if err != nil {
		return f, err
	}
	f.uncached = len(t.Texts) > maxCachedTexts
	for i := range t.Texts {
		k := l.Finder.KeyOf(t.Texts[i].Value.Raw, kindOf(&t.Texts[i]))
		if l.Finder.Clean(k) {
			continue
		}
		n := len(f.values)
		if err := l.searchText(ctx, t, i, &f); err != nil {
			return f, err
		}
		switch {
		case len(f.values) == n && !f.uncached:
			l.Finder.SetClean(k)
		case len(f.values) == n:
		case f.secretAt == "" && slices.ContainsFunc(f.values[n:], func(v value) bool { return v.t.Forbidden() }):
			f.secretAt = location(t, i)
		}
	}
	return f, l.searchHints(ctx, x, &f)
}

// kindOf distinguishes texts that are searched in different ways.
func kindOf(at *transcript.Text) uint8 {
	switch {
	case at.Seal:
		return 3
	case at.JSON:
		return 2
	case mayBeJSON(at):
		return 1
	}
	return 0
}

// mayBeJSON reports whether a text may be JSON, in which the name of a member may identify its value.
func mayBeJSON(at *transcript.Text) bool {
	return at.Kind == transcript.Arguments || at.Kind == transcript.Result
}

// searchText searches a text, and every string inside one that is JSON.
func (l Layer) searchText(ctx context.Context, t *transcript.Transcript, i int, f *finding) (err error) {
	n := len(f.values)
	t.Edit(i, func(s string) (string, bool) {
		if err == nil {
			err = l.searchString(ctx, s, f)
		}
		return "", false
	})
	if mayBeJSON(&t.Texts[i]) && err == nil {
		err = l.searchMembers(ctx, t.String(i), f, n)
	}
	return err
}

// find searches one string.
func (l Layer) find(ctx context.Context, s string, f *finding) ([]pii.Span, error) {
	if f.uncached {
		return l.Finder.FindOnce(ctx, s)
	}
	return l.Finder.Find(ctx, s)
}

func (l Layer) searchString(ctx context.Context, s string, f *finding) error {
	spans, err := l.find(ctx, s, f)
	for _, at := range spans {
		f.add(at.Type, s[at.Start:at.End])
	}
	f.fullNames = append(f.fullNames, pii.FullNames(s, spans)...)
	return err
}

// searchMembers searches JSON as a whole, and adds values that its strings alone, which are those from the n-th value on, do not reveal.
func (l Layer) searchMembers(ctx context.Context, s string, f *finding, n int) error {
	spans, err := l.find(ctx, s, f)
	if len(spans) == 0 {
		return err
	}
	known := make(map[string]bool, len(f.values)-n)
	for _, v := range f.values[n:] {
		known[v.text] = true
	}
	for _, at := range spans {
		text := s[at.Start:at.End]
		if isShortNumber(s, at) {
			f.minDigits = min(f.minNumber(), len(text))
		}
		if known[text] || strings.ContainsAny(text, `"\`) {
			continue
		}
		known[text] = true
		f.add(at.Type, text)
	}
	f.fullNames = append(f.fullNames, pii.FullNames(s, spans)...)
	return err
}

// isShortNumber reports whether a span of JSON is a number that is too short to be searched by itself.
func isShortNumber(s string, at pii.Span) bool {
	quoted := at.Start > 0 && s[at.Start-1] == '"'
	return !quoted && at.End-at.Start < transcript.LongNumber && !strings.ContainsFunc(s[at.Start:at.End], func(r rune) bool { return r < '0' || r > '9' })
}

// location describes for the client where a text is.
func location(t *transcript.Transcript, i int) string {
	at := t.Texts[i]
	if at.Turn < 0 {
		return at.Kind.String()
	}
	return fmt.Sprintf("turn %d, %s", at.Turn, at.Kind)
}

// forbidden returns the fault of a request with a private key or a seed phrase.
func (f *finding) forbidden() error {
	if f.secretAt == "" {
		return nil
	}
	return fault.Newf(fault.SecretInPrompt, "the request has a private key or a seed phrase (%s; the first turn is 0), and was not sent to any provider: remove it, and consider it "+
		"disclosed to whatever put it there", f.secretAt)
}

// Forbids implements pipeline.Forbidding: private keys and seed phrases.
func (l Layer) Forbids(ctx context.Context, x *pipeline.Exchange) error {
	if l.mode(&x.Principal, x.Hints.SecurityClass) == Off {
		return nil
	}
	f, err := l.search(ctx, x)
	if err != nil {
		return err
	}
	return f.forbidden()
}

// Request searches for names, and refuses, masks or counts what was found.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	s := slot.Of(x)
	if s.err != nil {
		return s.err
	}
	if err := s.found.forbidden(); err != nil {
		return err
	}
	if err := l.refuseUnsearchable(s.unsearchable); err != nil {
		return err
	}
	mode := l.mode(&x.Principal, x.Hints.SecurityClass)
	if err := l.addNames(ctx, x, s, mode); err != nil {
		return err
	}
	if err := refuseFound(x, mode, &s.found); err != nil {
		return err
	}
	e := pipeline.Entry{Layer: Name, Note: note(mode, s)}
	if mode == Mask && len(s.found.counts) > 0 {
		if err := l.mask(x, s); err != nil {
			return err
		}
	}
	x.Log = append(x.Log, e)
	return nil
}

// refuseFound refuses values in mode block, and in mode mask those in hints, and those that could not be restored in an answer of sound or pictures.
func refuseFound(x *pipeline.Exchange, mode Mode, f *finding) error {
	counts := f.counts
	switch {
	case len(counts) == 0:
	case mode == Mask && f.inHints:
		return fault.Newf(fault.SecretInPrompt, "%s has personal data or secrets (%s), which this gateway masks in requests, but not in hints: remove them, or use the request's own members", inHints, names(counts))
	case mode == Block:
		return fault.Newf(fault.SecretInPrompt, "the request has personal data or secrets (%s), which this gateway does not send to providers: remove them", names(counts))
	case mode == Mask && x.NoText:
		return fault.Newf(fault.SecretInPrompt, "the request has personal data or secrets (%s), which this gateway masks, and sound and pictures cannot be unmasked: remove them", names(counts))
	}
	return nil
}

// mask replaces the values in every text, and registers the layer to restore them in the answer.
func (l Layer) mask(x *pipeline.Exchange, s *state) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	s.vault = pii.NewVault(pii.TenantKey(l.Secret(), string(x.Principal.Account)))
	for _, v := range s.found.values {
		s.vault.Holder(v.t, v.text)
	}
	for _, name := range s.found.fullNames {
		s.vault.Holder(pii.Name, name)
	}
	var failed error
	for i := range t.Texts {
		t.EditFrom(i, s.found.minNumber(), func(text string) (string, bool) {
			spans, err := l.find(context.Background(), text, &s.found)
			if err != nil {
				failed = err
			}
			masked := s.vault.Mask(text, spans)
			return masked, masked != text
		})
	}
	if failed != nil {
		return failed
	}
	if s.vault.Exhausted() {
		return fault.Newf(fault.TooLarge, "the request has too many long values that begin alike (%s) to look for each of them in all of its texts: send it in parts", names(s.found.counts))
	}
	if err := x.Change(t); err != nil {
		return err
	}
	switch x.Request.Op {
	case chat.Embed: // vectors have no text
	case chat.Modality:
		x.NewRestorer = func(inJSON bool) pipeline.Restorer { return s.vault.NewRestorer(inJSON) }
	case chat.Generate, chat.CountTokens:
		x.Watch(Name, l)
	}
	return nil
}

// names lists types, sorted.
func names(counts map[pii.Type]int) string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, strings.ToLower(string(t)))
	}
	return strings.Join(out, ", ")
}

// note is the note in X-Bardo-Pipeline: the number of values of each type, and of parts that could not be searched.
func note(mode Mode, s *state) string {
	var parts []string
	if len(s.found.counts) > 0 {
		parts = append(parts, map[bool]string{true: "masked", false: "found"}[mode == Mask])
	}
	for _, t := range slices.Sorted(maps.Keys(s.found.counts)) {
		parts = append(parts, fmt.Sprintf("%s=%d", strings.ToLower(string(t)), s.found.counts[t]))
	}
	if n := s.unsearchable.parts(); n > 0 {
		parts = append(parts, fmt.Sprintf("unread=%d", n))
	}
	if s.namesUnknown {
		parts = append(parts, "unnamed")
	}
	return strings.Join(parts, ";")
}
