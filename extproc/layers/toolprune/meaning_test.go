package toolprune_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
)

// fakeEmbedder distinguishes two subjects by some words, and takes a time for each text.
type fakeEmbedder struct {
	mu    sync.Mutex // the layer also embeds in the background
	calls int
	takes time.Duration
	err   error
	lazy  bool // its tag is "" until it has embedded a text
	read  bool
}

func (s *fakeEmbedder) asked() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.takes, s.err
}

func (s *fakeEmbedder) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *fakeEmbedder) set(takes time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.err = takes, err
}

func (s *fakeEmbedder) Embed(ctx context.Context, text string) ([]float32, error) {
	takes, err := s.asked()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	s.read = true
	s.mu.Unlock()
	v := []float32{0, 0, 0.1}
	for i, words := range [][]string{{"swap", "exchange", "coins"}, {"weather", "umbrella", "rain"}} {
		for _, w := range words {
			if strings.Contains(strings.ToLower(text), w) {
				v[i] = 1
			}
		}
	}
	return v, nil
}

func (s *fakeEmbedder) Tag() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lazy && !s.read {
		return ""
	}
	return "sense"
}

func meaningful(s *fakeEmbedder) toolprune.Layer {
	return toolprune.Layer{Memory: toolprune.NewChoices(), Embedder: s, Vectors: toolprune.NewVectors()}
}

func prunedFor(t *testing.T, l toolprune.Layer, text string) (*pipeline.Exchange, []string) {
	t.Helper()
	x := request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user(text)}, "tools": defi()})
	return x, prune(t, l, x)
}

// TestD36ToolsAreRankedByMeaning: a tool is kept that shares no word with the user's text; each definition is embedded once; the conversation keeps its set.
func TestD36ToolsAreRankedByMeaning(t *testing.T) {
	s := &fakeEmbedder{}
	l := meaningful(s)
	x, got := prunedFor(t, l, "Will I need an umbrella?")
	if !slices.Contains(got, "weather_forecast") || len(got) > 12 || x.Log[0].Note != "meaning" || s.count() != 31 {
		t.Errorf("%v after %d calls, log %+v", got, s.count(), x.Log)
	}
	if _, again := prunedFor(t, l, "Will I need an umbrella?"); !slices.Equal(again, got) || s.count() != 31 {
		t.Errorf("the conversation has %v after %d calls", again, s.count())
	}
	if _, got = prunedFor(t, l, "Some other coins, please"); !slices.Contains(got, "swap_tokens") || s.count() != 32 {
		t.Errorf("%v after %d calls", got, s.count())
	}
	x = request(t, policy.Hints{TickType: "risk_check"}, map[string]any{"messages": []any{user("umbrella")}, "tools": defi()})
	if got = prune(t, l, x); slices.Contains(got, "weather_forecast") || s.count() != 32 || l.Waits(x) {
		t.Errorf("a tick with a map has %v after %d calls", got, s.count())
	}
}

// kept is a store of vectors.
type kept struct {
	mu   sync.Mutex
	have map[string][]float32
}

func (k *kept) Lookup(_ context.Context, tag string, texts []string) [][]float32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = k.have[tag+" "+text]
	}
	return out
}

func (k *kept) Put(tag, text string, vector []float32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.have[tag+" "+text] = vector
}

func (k *kept) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.have)
}

// TestC18GatewaysShareTheVectorsOfTools: definitions that one gateway has embedded are not embedded by the next one; those of private requests are neither stored
// nor looked up.
func TestC18GatewaysShareTheVectorsOfTools(t *testing.T) {
	store := &kept{have: map[string][]float32{}}
	gatewayWith := func(s *fakeEmbedder) toolprune.Layer {
		l := meaningful(s)
		l.VectorStore = store
		return l
	}
	private := func(l toolprune.Layer) *pipeline.Exchange {
		x := request(t, policy.Hints{GolemID: "g", SecurityClass: policy.SecurityPrivate}, map[string]any{"messages": []any{user("Will I need an umbrella?")}, "tools": defi()})
		prune(t, l, x)
		return x
	}
	if x := private(gatewayWith(&fakeEmbedder{})); x.Log[0].Note != "meaning" || store.size() != 0 {
		t.Errorf("of a private request %d definitions are kept, log %+v", store.size(), x.Log)
	}
	first, second, third := &fakeEmbedder{}, &fakeEmbedder{}, &fakeEmbedder{}
	_, want := prunedFor(t, gatewayWith(first), "Will I need an umbrella?")
	if first.count() != 31 || store.size() != 30 {
		t.Errorf("the first gateway makes %d vectors, and keeps %d", first.count(), store.size())
	}
	x, got := prunedFor(t, gatewayWith(second), "Will I need an umbrella?")
	if second.count() != 1 || x.Log[0].Note != "meaning" || !slices.Equal(got, want) {
		t.Errorf("the second gateway makes %d vectors, and has %v, log %+v", second.count(), got, x.Log)
	}
	if private(gatewayWith(third)); third.count() != 31 {
		t.Errorf("for a private request %d vectors are made", third.count())
	}
}

// TestC18AModelThatIsLoadedByARequestUsesTheStore: if the query times out because the model is being loaded, stored definitions are not embedded again.
func TestC18AModelThatIsLoadedByARequestUsesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &kept{have: map[string][]float32{}}
		gatewayWith := func(s *fakeEmbedder) toolprune.Layer {
			l := meaningful(s)
			l.VectorStore = store
			return l
		}
		prunedFor(t, gatewayWith(&fakeEmbedder{}), "Will I need an umbrella?")
		s := &fakeEmbedder{lazy: true, takes: 100 * time.Millisecond}
		l := gatewayWith(s)
		prunedFor(t, l, "Will I need an umbrella?")
		time.Sleep(3 * time.Second)                       //nolint:forbidigo // of the bubble
		if n := s.count(); n != 2 || store.size() != 30 { // the question, and one definition
			t.Errorf("%d texts are read, and the store has %d", n, store.size())
		}
		s.set(0, nil)
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
		if x, _ := prunedFor(t, l, "Is rain likely?"); x.Log[0].Note != "meaning" || s.count() != 3 {
			t.Errorf("%d texts are read, log %+v", s.count(), x.Log)
		}
	})
}

// TestD36AModelThatIsLateOrBusyIsTriedAgain: the time limit of a model in another process may expire before the request's.
func TestD36AModelThatIsLateOrBusyIsTriedAgain(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, models.ErrBusy} {
		s := &fakeEmbedder{err: fmt.Errorf("a local model: %w", err)}
		l := meaningful(s)
		prunedFor(t, l, "Please swap 1 ETH")
		s.set(0, nil)
		if x, _ := prunedFor(t, l, "Please swap 2 ETH"); x.Log[0].Note != "meaning" {
			t.Errorf("after %v: log %+v", err, x.Log)
		}
	}
}

// TestD36WordsRankWithoutAModel, and no request waits for one that is off, until it is tried again some seconds later.
func TestD36WordsRankWithoutAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeEmbedder{err: fmt.Errorf("not installed: %w", models.ErrOff)}
		l := meaningful(s)
		x, got := prunedFor(t, l, "Please swap 1 ETH")
		if !slices.Contains(got, "swap_tokens") || x.Log[0].Note != "" || s.count() != 1 || l.Waits(request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user("hi")}, "tools": defi()})) {
			t.Errorf("%v after %d calls", got, s.count())
		}
		prunedFor(t, l, "Please swap 2 ETH")
		if s.count() != 1 {
			t.Errorf("%d calls of a model that is off", s.count())
		}
		time.Sleep(15 * time.Second) //nolint:forbidigo // of the bubble
		s.set(0, nil)
		if _, got = prunedFor(t, l, "Will I need an umbrella?"); !slices.Contains(got, "weather_forecast") {
			t.Errorf("some seconds later: %v", got)
		}
		if x = request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user("hi")}, "tools": defi()}); !l.Waits(x) {
			t.Error("the request stays on its thread")
		}
		if (toolprune.Layer{Memory: l.Memory}).Waits(x) {
			t.Error("a layer without a model waits")
		}
		if l.Waits(request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user("hi")}})) {
			t.Error("a request without tools waits")
		}
	})
}

// TestD36RankingHasATimeLimit: the request continues, and all of its definitions are embedded in the background, for the next conversations.
func TestD36RankingHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeEmbedder{takes: 5 * time.Millisecond}
		l := meaningful(s)
		for n := 1; n <= 3; n++ {
			began := time.Now()
			x, got := prunedFor(t, l, fmt.Sprintf("Will I need an umbrella in %d days?", n))
			if took := time.Since(began); took > 60*time.Millisecond {
				t.Errorf("conversation %d waits for %v", n, took)
			}
			if meant := x.Log[0].Note == "meaning"; meant != (n > 1) || meant != slices.Contains(got, "weather_forecast") {
				t.Errorf("conversation %d: log %+v, %v", n, x.Log, got)
			}
			time.Sleep(200 * time.Millisecond) //nolint:forbidigo // of the bubble
		}
		if s.count() != 33 {
			t.Errorf("%d calls for 30 definitions and 3 questions", s.count())
		}
	})
}

// TestD36DefinitionsAreEmbeddedOnASlowMachine: even if no query is embedded in time, the definitions are, with a time limit for each request.
func TestD36DefinitionsAreEmbeddedOnASlowMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeEmbedder{takes: 400 * time.Millisecond}
		l := meaningful(s)
		for n := range 3 {
			if x, _ := prunedFor(t, l, fmt.Sprintf("Will I need an umbrella in %d days?", n)); x.Log[0].Note != "" {
				t.Errorf("log %+v", x.Log)
			}
			time.Sleep(6 * time.Second) //nolint:forbidigo // of the bubble
		}
		s.set(time.Millisecond, nil)
		if x, got := prunedFor(t, l, "Will I need an umbrella?"); x.Log[0].Note != "meaning" || !slices.Contains(got, "weather_forecast") {
			t.Errorf("log %+v, %v", x.Log, got)
		}
	})
}

// searched is the result of a search.
func searched(t *testing.T, x *pipeline.Exchange, query string) string {
	t.Helper()
	res := x.RoundResults(t.Context(), []chat.ToolCall{{ID: "c", Name: "search_tools", Args: fmt.Sprintf(`{"query":%q}`, query)}})[0]
	if res.IsError {
		t.Error(res.Text)
	}
	return res.Text
}

// many are 120 tools, one of which tells the weather and one of which books a flight.
func many() []map[string]any {
	return append(catalog(119), tool("weather_forecast", "Rain and sunshine of the next days."))
}

// TestD36ASearchFindsToolsByMeaning that share no word with it, in addition to those that do; each with its parameters.
func TestD36ASearchFindsToolsByMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := meaningful(&fakeEmbedder{})
		x, got := prunedRequest(t, l, []any{user("hi")}, many())
		if !slices.Equal(got, three) {
			t.Fatal(got)
		}
		synctest.Wait()
		if text := searched(t, x, "umbrella needed? or a flight"); strings.Index(text, `{"name":"weather_forecast"`) != 0 || !strings.Contains(text, `{"name":"book_flight","description":"Books a seat on an airplane.","parameters"`) {
			t.Errorf("found is %.600s", text)
		}
		if note := x.Log[0].Note; note != "meta;meaning=1;answered=1" {
			t.Errorf("the log says %q", note)
		}
		if text := searched(t, x, "  "); !strings.HasPrefix(text, "No tool fits") {
			t.Errorf("without words it finds %.300s", text)
		}
	})
}

// TestD36ASearchWaitsForAModelAsLongAsARequest: definitions are embedded in the background from the request on, so that they are ready when the model searches.
// Until then, and if the model is off or there are too many tools, words decide.
func TestD36ASearchWaitsForAModelAsLongAsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeEmbedder{takes: 5 * time.Millisecond}
		l := meaningful(s)
		x, _ := prunedRequest(t, l, []any{user("hi")}, many())
		began := time.Now()
		if text := searched(t, x, "umbrella"); strings.Contains(text, `{"name":"weather_forecast"`) || time.Since(began) > 60*time.Millisecond {
			t.Errorf("after %v: %.300s", time.Since(began), text)
		}
		time.Sleep(time.Second) //nolint:forbidigo // of the bubble
		if text := searched(t, x, "umbrella"); !strings.HasPrefix(text, `{"name":"weather_forecast"`) {
			t.Errorf("a second later: %.300s", text)
		}
		if s.count() != 122 {
			t.Errorf("%d calls for 120 definitions and 2 searches", s.count())
		}
		s.set(0, models.ErrOff)
		if text := searched(t, x, "book a flight"); !strings.HasPrefix(text, `{"name":"book_flight"`) {
			t.Errorf("without the model: %.300s", text)
		}
		n := s.count()
		x, _ = prunedRequest(t, l, []any{user("hi")}, append(many(), tool("swap", "")))
		searched(t, x, "umbrella")
		if s.count() != n {
			t.Error("a model that is off is asked")
		}
		s.set(0, nil)
		l = meaningful(s)
		x, _ = prunedRequest(t, l, []any{user("hi")}, append(catalog(1100), many()...))
		synctest.Wait()
		if searched(t, x, "umbrella"); s.count() != n {
			t.Errorf("%d definitions are read for a request with 1,220", s.count()-n)
		}
	})
}
