// Package pii is layer L7: it finds personal data and secrets in requests, and where a tenant asks for it masks them before anything leaves the gateway, and
// restores them in the answer (D-37). Private keys and seed phrases are never sent to a provider.
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
	Off    Mode = "off"    // nothing is looked for, except in confidential requests
	Detect Mode = "detect" // counted; private keys and seed phrases are refused
	Mask   Mode = "mask"   // replaced by placeholders, and restored in the answer
	Block  Mode = "block"  // refused
)

// Refuse says which requests are refused for parts that cannot be looked into, where values would be masked or refused.
type Refuse string

// What is refused.
const (
	Tokens Refuse = "tokens" // lists of tokens or vectors in the place of a text
	All    Refuse = "all"    // pictures, sound and files, too
	None   Refuse = "none"   // nothing
)

// Layer masks. Safe for concurrent use.
type Layer struct {
	Mode   Mode   // "" means Detect
	Unread Refuse // "" means Tokens
	Finder *pii.Memo
	Names  Names
	Secret func() []byte // what tenants' keys of placeholders are derived from
}

var (
	_ pipeline.Layer      = Layer{}
	_ pipeline.Selective  = Layer{}
	_ pipeline.Responder  = Layer{}
	_ pipeline.Guarding   = Layer{}
	_ pipeline.Protecting = Layer{}
	_ pipeline.Waiting    = Layer{}
)

// Name is "l7".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: what must not leave the gateway does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// state is what the layer knows of an exchange.
type state struct {
	found   finding
	unread  unread
	err     error
	vault   *pii.Vault
	streams []*stream
	custom  map[block]bool // tool calls whose arguments are no JSON
	unnamed bool           // nothing is known of the names in its texts
}

var slot = pipeline.NewSlot[state]()

// mode is what happens to a request's values: as its key says, else as configured. Confidential requests are masked at least (D-05).
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

// Protects implements pipeline.Protecting: embeddings, legacy completions and the like leave the gateway as well.
func (Layer) Protects() {}

// Applies reports whether the request has anything that the layer looks for.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	of := l.extent(x)
	if of == nothing {
		return false
	}
	s := slot.Of(x)
	s.found, s.err = l.search(context.Background(), x)
	if s.err != nil || of == forbidden {
		return s.err != nil || s.found.where != ""
	}
	if l.mode(&x.Principal, x.Hints.SecurityClass) != Detect {
		s.unread = unreadOf(x)
	}
	return len(s.found.counts) > 0 || s.unread != unread{} || l.Names.Finder != nil
}

// extent is what a request is looked into for.
type extent uint8

const (
	nothing    extent = iota
	forbidden         // private keys and seed phrases, which are refused; nothing else happens
	everything        // as the mode says
)

// extent is what a request is looked into for. One that goes to an enclave and nowhere else is not changed, since the receipt of its answer covers it (D-30); a refusal
// changes nothing (D-37). One that leaves encrypted end to end is not looked into.
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

// manyTexts is how many texts a request has that are not remembered: a batch of embeddings must not displace what is known of conversations.
const manyTexts = 2048

// finding is what the texts of a request have.
type finding struct {
	many   bool // it has too many texts to be remembered
	counts map[pii.Type]int
	values []value  // in the request's order
	where  string   // of the first value that must not leave the gateway
	full   []string // names that were found in parts, put together
	digits int      // of the shortest value that is a number of JSON; 0 for none
}

// shortest is how many digits a number of JSON has at least that may be a value.
func (f *finding) shortest() int { return cmp.Or(f.digits, transcript.LongNumber) }

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

// search looks into every text of the request that is not known to have nothing.
func (l Layer) search(ctx context.Context, x *pipeline.Exchange) (f finding, err error) {
	t, err := x.Transcript()
	if err != nil {
		return f, err
	}
	f.many = len(t.Texts) > manyTexts
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
		case len(f.values) == n && !f.many:
			l.Finder.SetClean(k)
		case len(f.values) == n:
		case f.where == "" && slices.ContainsFunc(f.values[n:], func(v value) bool { return v.t.Forbidden() }):
			f.where = place(t, i)
		}
	}
	return f, nil
}

// kindOf tells apart texts that are searched in different ways.
func kindOf(at *transcript.Text) uint8 {
	switch {
	case at.Seal:
		return 3
	case at.JSON:
		return 2
	case isWhole(at):
		return 1
	}
	return 0
}

// isWhole reports whether a text may be JSON, in which a member's name may tell what its value is.
func isWhole(at *transcript.Text) bool {
	return at.Kind == transcript.Arguments || at.Kind == transcript.Result
}

// searchText looks into a text, and into every string inside of one that is JSON.
func (l Layer) searchText(ctx context.Context, t *transcript.Transcript, i int, f *finding) (err error) {
	n := len(f.values)
	t.Edit(i, func(s string) (string, bool) {
		if err == nil {
			err = l.look(ctx, s, f)
		}
		return "", false
	})
	if isWhole(&t.Texts[i]) && err == nil {
		err = l.lookBehindNames(ctx, t.String(i), f, n)
	}
	return err
}

// find looks into one string.
func (l Layer) find(ctx context.Context, s string, f *finding) ([]pii.Span, error) {
	if f.many {
		return l.Finder.FindOnce(ctx, s)
	}
	return l.Finder.Find(ctx, s)
}

func (l Layer) look(ctx context.Context, s string, f *finding) error {
	spans, err := l.find(ctx, s, f)
	for _, at := range spans {
		f.add(at.Type, s[at.Start:at.End])
	}
	f.full = append(f.full, pii.FullNames(s, spans)...)
	return err
}

// lookBehindNames adds what the JSON as a whole has, and its strings alone, from the n-th value on, do not tell.
func (l Layer) lookBehindNames(ctx context.Context, s string, f *finding, n int) error {
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
			f.digits = min(f.shortest(), len(text))
		}
		if known[text] || strings.ContainsAny(text, `"\`) {
			continue
		}
		known[text] = true
		f.add(at.Type, text)
	}
	f.full = append(f.full, pii.FullNames(s, spans)...)
	return err
}

// isShortNumber reports whether a span of JSON is a number that is not looked at by itself.
func isShortNumber(s string, at pii.Span) bool {
	quoted := at.Start > 0 && s[at.Start-1] == '"'
	return !quoted && at.End-at.Start < transcript.LongNumber && !strings.ContainsFunc(s[at.Start:at.End], func(r rune) bool { return r < '0' || r > '9' })
}

// place says where a text is, for the client.
func place(t *transcript.Transcript, i int) string {
	at := t.Texts[i]
	if at.Turn < 0 {
		return at.Kind.String()
	}
	return fmt.Sprintf("turn %d, %s", at.Turn, at.Kind)
}

// Request refuses, masks or counts what Applies found, and names.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	s := slot.Of(x)
	if s.err != nil {
		return s.err
	}
	if s.found.where != "" {
		return fault.Newf(fault.SecretInPrompt, "the request has a private key or a seed phrase (%s; the first turn is 0), and was not sent to any provider: remove it, and consider it "+
			"disclosed to whatever put it there", s.found.where)
	}
	if err := l.refuseUnread(s.unread); err != nil {
		return err
	}
	mode := l.mode(&x.Principal, x.Hints.SecurityClass)
	if err := l.addNames(ctx, x, s, mode); err != nil {
		return err
	}
	if err := refuseFound(x, mode, s.found.counts); err != nil {
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

// refuseFound refuses values that the policy does not let through, and those that an answer of sound or pictures could not give back.
func refuseFound(x *pipeline.Exchange, mode Mode, counts map[pii.Type]int) error {
	switch {
	case len(counts) == 0:
	case mode == Block:
		return fault.Newf(fault.SecretInPrompt, "the request has personal data or secrets (%s), which this gateway does not send to providers: remove them", names(counts))
	case mode == Mask && x.NoText:
		return fault.Newf(fault.SecretInPrompt, "the request has personal data or secrets (%s), which this gateway masks, and sound and pictures cannot be unmasked: remove them", names(counts))
	}
	return nil
}

// mask replaces the values in every text, and has the answer restored.
func (l Layer) mask(x *pipeline.Exchange, s *state) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	s.vault = pii.NewVault(pii.TenantKey(l.Secret(), string(x.Principal.Account)))
	for _, v := range s.found.values {
		s.vault.Holder(v.t, v.text)
	}
	for _, name := range s.found.full {
		s.vault.Holder(pii.Name, name)
	}
	var failed error
	for i := range t.Texts {
		t.EditFrom(i, s.found.shortest(), func(text string) (string, bool) {
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

// names are types, sorted.
func names(counts map[pii.Type]int) string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, strings.ToLower(string(t)))
	}
	return strings.Join(out, ", ")
}

// note is what X-Bardo-Pipeline says of the values: how many of each type, and how many parts could not be looked into.
func note(mode Mode, s *state) string {
	var out []string
	if len(s.found.counts) > 0 {
		out = append(out, map[bool]string{true: "masked", false: "found"}[mode == Mask])
	}
	for _, t := range slices.Sorted(maps.Keys(s.found.counts)) {
		out = append(out, fmt.Sprintf("%s=%d", strings.ToLower(string(t)), s.found.counts[t]))
	}
	if n := s.unread.parts(); n > 0 {
		out = append(out, fmt.Sprintf("unread=%d", n))
	}
	if s.unnamed {
		out = append(out, "unnamed")
	}
	return strings.Join(out, ";")
}
