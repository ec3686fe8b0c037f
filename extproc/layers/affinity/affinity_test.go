package affinity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/affinity"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

var long = strings.Repeat("You are an agent that trades. ", 200)

// request is a request with a system prompt and some turns, between two providers of one model.
func request(t *testing.T, account, model, system string, turns ...string) *pipeline.Exchange {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"messages":[{"role":"system","content":%q}`, model, system)
	for i, turn := range turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":%q}`, role, turn)
	}
	b.WriteString("]}")
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{
		Request: req, Principal: policy.Principal{Account: policy.Account(account)},
		Found: []policy.Resolution{{Provider: "one", Model: policy.ModelID(model)}, {Provider: "two", Model: policy.ModelID(model)}},
	}
}

// where is the provider that the layer prefers for a request; "" if there is none or the layer does not apply.
func where(t *testing.T, l affinity.Layer, x *pipeline.Exchange) policy.ProviderID {
	t.Helper()
	if !l.Applies(x) {
		return ""
	}
	if err := l.Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x.Affinity.Provider
}

func newLayer() affinity.Layer {
	return affinity.Layer{Memory: affinity.New(nil), Spread: func(policy.ProviderID) bool { return false }}
}

func TestAConversationReturnsToItsProvider(t *testing.T) {
	l := newLayer()
	first := request(t, "a", "m", long, "hello")
	if got := where(t, l, first); got != "" {
		t.Fatalf("a new conversation goes to %q", got)
	}
	l.Finish(first, "two", "k")
	next := request(t, "a", "m", long, "hello", "hi", "and now?")
	if got := where(t, l, next); got != "two" || next.Affinity.Key != "k" || next.Affinity.Hash == 0 || next.Affinity.Hash != first.Affinity.Hash {
		t.Errorf("its next turn goes to %+v, the first went to %+v", next.Affinity, first.Affinity)
	}
	other := request(t, "a", "m", long, "another matter")
	if got := where(t, l, other); got != "two" {
		t.Errorf("another conversation with the same beginning goes to %q", got)
	}
}

// TestR09HashingALongConversationStopsAtTheDeadline: then nothing is found or stored. Shorter ones are hashed before the deadline is first checked.
func TestR09HashingALongConversationStopsAtTheDeadline(t *testing.T) {
	l := newLayer()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Request(over, request(t, "a", "m", long, "hello")); err != nil {
		t.Errorf("a short one: %v", err)
	}
	x := request(t, "a", "m", strings.Repeat(long, 2<<20/len(long)), "hello", "hi", "and now?")
	if err := l.Request(over, x); !errors.Is(err, context.Canceled) || *affinity.Prefixes(x) != nil || x.Affinity.Hash != 0 {
		t.Errorf("%v: %+v", err, x.Affinity)
	}
	if got := where(t, l, x); got != "" || x.Affinity.Hash == 0 {
		t.Errorf("in time: %+v", x.Affinity)
	}
}

func TestTheLongestPrefixDecides(t *testing.T) {
	l := newLayer()
	for turn, by := range map[string]policy.ProviderID{"red": "one", "blue": "two"} {
		x := request(t, "a", "m", long, turn)
		where(t, l, x)
		l.Finish(x, by, "")
	}
	for turn, want := range map[string]policy.ProviderID{"red": "one", "blue": "two"} {
		if got := where(t, l, request(t, "a", "m", long, turn, "yes", "more")); got != want {
			t.Errorf("%s goes to %q, want %q", turn, got, want)
		}
	}
}

func TestK87AShortPrefixHasNoAffinity(t *testing.T) {
	l := newLayer()
	x := request(t, "a", "m", "short", "hello")
	if l.Applies(x) {
		t.Error("a short request has an affinity")
	}
	l.Finish(x, "two", "")
	big := request(t, "a", "m", "short", "hello", "hi", long)
	if got := where(t, l, big); got != "" {
		t.Errorf("what follows a trivial beginning goes to %q", got)
	}
	if l.Memory.Len() != 0 {
		t.Errorf("%d beginnings are remembered", l.Memory.Len())
	}
}

func TestK91TenantsAndModelsAreSeparate(t *testing.T) {
	l := newLayer()
	x := request(t, "a", "m", long, "hello")
	where(t, l, x)
	l.Finish(x, "two", "")
	for about, other := range map[string]*pipeline.Exchange{
		"another tenant": request(t, "b", "m", long, "hello"), "another model": request(t, "a", "n", long, "hello"),
	} {
		if got := where(t, l, other); got != "" || (*affinity.Prefixes(other))[0] == (*affinity.Prefixes(x))[0] {
			t.Errorf("%s goes to %q", about, got)
		}
	}
}

func TestK92GatewaysDoNotShareAffinity(t *testing.T) {
	l, other := newLayer(), newLayer()
	x, y := request(t, "a", "m", long, "hello"), request(t, "a", "m", long, "hello")
	where(t, l, x)
	l.Finish(x, "two", "")
	if where(t, other, y) != "" || (*affinity.Prefixes(y))[0] == (*affinity.Prefixes(x))[0] {
		t.Error("another process knows the conversation, or could work out its marks")
	}
}

// sharedStore is what two gateways share.
type sharedStore struct {
	kept map[[16]byte][]byte
	away bool
}

func (*sharedStore) Secret() []byte       { return []byte("secret") }
func (*sharedStore) Limit() time.Duration { return time.Second }

func (s *sharedStore) SetServed(prefix [16]byte, value []byte, _ time.Duration) {
	s.kept[prefix] = value
}

func (s *sharedStore) Served(_ context.Context, prefixes [][16]byte) (out [][]byte, err error) {
	if s.away {
		return nil, errors.New("away")
	}
	for _, p := range prefixes {
		out = append(out, s.kept[p])
	}
	return out, nil
}

// TestR12GatewaysThatShareAStoreShareAffinity: the latest answer counts, of whichever gateway; while the store is unreachable, each gateway uses its own memory.
func TestR12GatewaysThatShareAStoreShareAffinity(t *testing.T) {
	both := &sharedStore{kept: map[[16]byte][]byte{}}
	a, b := newLayer(), newLayer()
	a.Memory, b.Memory = affinity.New(both), affinity.New(both)
	x := request(t, "a", "m", long, "hello")
	where(t, a, x)
	a.Finish(x, "two", "key-2")
	y := request(t, "a", "m", long, "hello", "hi", "and?")
	if got := where(t, b, y); got != "two" || y.Affinity.Key != "key-2" {
		t.Errorf("at the other gateway it goes to %q, key %q", got, y.Affinity.Key)
	}
	if got := where(t, b, request(t, "other", "m", long, "hello")); got != "" {
		t.Errorf("K-91 another tenant's goes to %q", got)
	}
	b.Finish(y, "three", "")
	if got := where(t, a, request(t, "a", "m", long, "hello", "hi", "and?", "so", "?")); got != "three" {
		t.Errorf("back at the first gateway it goes to %q", got)
	}
	both.away = true
	if got := where(t, a, request(t, "a", "m", long, "hello", "hi", "and?", "so", "?")); got != "two" {
		t.Errorf("without the store it goes to %q", got)
	}
	if !a.Waits(y) || newLayer().Waits(y) {
		t.Error("a layer with a store does not wait, or one without does")
	}
}

func TestAffinityExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLayer()
		x := request(t, "a", "m", long, "hello")
		where(t, l, x)
		l.Finish(x, "two", "")
		time.Sleep(4 * time.Minute) //nolint:forbidigo // synctest's time
		if got := where(t, l, request(t, "a", "m", long, "hello")); got != "two" {
			t.Errorf("after four minutes it goes to %q", got)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // synctest's time
		if got := where(t, l, request(t, "a", "m", long, "hello")); got != "" {
			t.Errorf("after six minutes it goes to %q", got)
		}
	})
}

func TestK90TheMemoryIsBounded(t *testing.T) {
	l := newLayer()
	x := request(t, "a", "m", long, "hello")
	where(t, l, x)
	const bound = 100_000
	for i := range bound + 5000 {
		*affinity.Prefixes(x) = [][16]byte{{byte(i), byte(i >> 8), byte(i >> 16)}}
		l.Finish(x, "two", "")
	}
	if n := l.Memory.Len(); n != bound {
		t.Errorf("%d beginnings are remembered", n)
	}
}

func TestWithoutAChoiceTheLayerDoesNotApply(t *testing.T) {
	l := newLayer()
	x := request(t, "a", "m", long, "hello")
	x.Found = x.Found[:1]
	if l.Applies(x) {
		t.Error("it works for a single place")
	}
	l.Spread = func(id policy.ProviderID) bool { return id == "one" }
	if !l.Applies(x) {
		t.Error("it does not work for a provider with several places")
	}
}

func BenchmarkRequest(b *testing.B) {
	l := newLayer()
	var body strings.Builder
	body.WriteString(`{"model":"m","messages":[{"role":"system","content":"` + long + `"}`)
	for i := range 40 {
		fmt.Fprintf(&body, `,{"role":"user","content":"%d %s"}`, i, strings.Repeat("x", 1000))
	}
	body.WriteString("]}")
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body.String()))
	if err != nil {
		b.Fatal(err)
	}
	x := &pipeline.Exchange{Request: req, Found: []policy.Resolution{{Provider: "one", Model: "m"}, {Provider: "two", Model: "m"}}}
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Request(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}
